import type { Message } from '../protocol/read-message.ts';
import type { Slot } from './calendar.ts';

export const STATUSES = [
  'CONFIRMED',
  'PENDING_MERCHANT_CONFIRMATION',
  'CANCELED',
  'NO_SHOW',
  'NO_SHOW_PENALIZED',
  'FAILED',
  'DECLINED_BY_MERCHANT',
] as const;

export type Status = (typeof STATUSES)[number];

/** A booking in the partner's books. */
export interface Booking {
  id: string;
  slot: Slot;
  status: Status;
  /** As it was sent. */
  user: Message & { user_id: string };
  prepaymentStatus: string;
  additionalRequest?: string;
  /** What made it, so that the same token gets the same answer. */
  token: string;
  /** Hash of the request's bytes. */
  fingerprint: string;
  /** RFC 3339. */
  createdAt: string;
}

/** Takes seats: made, and not undone. */
export function isStanding({ status }: Booking): boolean {
  return status === 'CONFIRMED' || status === 'PENDING_MERCHANT_CONFIRMATION';
}
