import type { KeyedRequest } from '../../api/idempotency/keyed-request.ts';
import type { Fault, ProblemCode } from '../../platform/base/problem.ts';
import type { Creator } from '../../records/created-by.ts';
import type { PartStatus, TableOrder } from './connectors/connector.ts';

export interface ReservationOrder {
  tripId: string;
  name: string;
  table: TableOrder;
}

export type PlanState =
  | 'making_booking'
  | 'booking_table'
  | 'writing_outcome'
  | 'undoing'
  | 'pending'
  | 'confirmed'
  | 'refused'
  | 'failed'
  | 'cancelling_table'
  | 'writing_cancellation'
  | 'cancelled';

export interface PlanStep {
  step: string;
  /** RFC 3339. */
  at: string;
}

export const reservationStatuses = [
  'pending',
  'confirmed',
  'cancelled',
  'failed',
  'needs_attention',
] as const;
export type ReservationStatus = (typeof reservationStatuses)[number];

export interface Refusal {
  code: ProblemCode;
  detail: string;
  partnerCause?: string;
  errors?: Fault[];
}

export interface WaitingRequest extends Pick<KeyedRequest, 'consumerId' | 'key' | 'externalId'> {
  requestId: string;
}

/** A reservation as it is stored. Once its personal data is erased, the order's guest and place are empty. */
export interface Plan {
  id: string;
  state: PlanState;
  stateBefore: PlanState | undefined;
  status: ReservationStatus;
  attention: string | undefined;
  order: ReservationOrder;
  /** JSON text of an object, digit for digit. */
  details: string | undefined;
  partner: string;
  tableToken: string;
  table: { reference: string; status: PartStatus } | undefined;
  refusal: Refusal | undefined;
  request: WaitingRequest | undefined;
  /** Its booking in the CRM has the same. */
  creator: Creator & { consumerId: string };
  fence: string;
  attempts: number;
  createdAt: Date;
  updatedAt: Date;
  erasedAt: Date | undefined;
}

/** As lists have it: details may be a megabyte each. */
export type ListedPlan = Omit<Plan, 'details'>;

const resting: ReadonlySet<PlanState> = new Set(['pending', 'confirmed', 'refused', 'failed', 'cancelled']);

export function isResting({ state }: Pick<Plan, 'state'>): boolean {
  return resting.has(state);
}
