import type { Call, Visible } from '../../platform/base/call.ts';
import type { Fault, ProblemCode } from '../../platform/base/problem.ts';
import type { Held } from '../../platform/store/leases.ts';
import type { HandoffRequest, HandoffType } from './handoff.ts';

/*
 * A hand-off that was answered 202 is a row that outlives its request. It is in one of these states:
 *
 *   ── stored ──> accepted ── the CRM has the record ──> created
 *       │          │  ^  │
 *       │          │  │  └── the CRM refuses it for good, or its offer has ended ──> failed ──┐
 *       │          │  └─────────────────────────────── retry ─────────────────────────────────┤
 *       │          └── cancel ──────────> cancelled <───────────────── cancel ────────────────┘
 *       │
 *       └──> awaiting_approval ── approve ──> accepted
 *                  ├── reject ──> rejected
 *                  ├── cancel ──> cancelled
 *                  └── nobody answers in time ──> failed
 *
 *   awaiting_approval   its consumer needs the approval of another one. Nothing calls the CRM for it.
 *   rejected   like cancelled, by the consumer that was asked.
 *   accepted   waits, or is being delivered: then `lease_until` is in the future, and nobody else tries it. A process
 *              that is killed leaves it to another one when the lease is over.
 *   created    the CRM has the record. What it was made of is not needed any more, and erased.
 *   failed     the CRM will never take it as it is: `problem` says why. It can be tried again, when the cause is gone. If a
 *              call may have created the record all the same, the record is looked for until that is settled: where there
 *              is one, the hand-off is created.
 *   cancelled  it is not to be delivered. A record that a call may have created is looked for too, and removed.
 *
 * Invariants: the External ID is chosen before the first call and never changes, so that any number of attempts makes one
 * record; each attempt has a fence of its own, and only the latest one stores how it ended; `may_exist` is set before a call
 * is made, for an item once it is known whether it had a record before, and unset only by an answer that says that nothing was
 * done; all times are the database's clock.
 */

export const handoffStatuses = [
  'awaiting_approval',
  'accepted',
  'created',
  'failed',
  'cancelled',
  'rejected',
] as const;
export type HandoffStatus = (typeof handoffStatuses)[number];

export interface Refusal {
  code: ProblemCode;
  detail: string;
  errors?: Fault[] | undefined;
}

export const approvalStatuses = ['pending', 'approved', 'rejected', 'expired'] as const;

export interface Decider {
  consumer_id: string;
  consumer_name: string | null;
  /** The person, as X-Actor named them, or as they have signed in. */
  actor: string | null;
  verified?: boolean;
}

export interface Approval {
  status: (typeof approvalStatuses)[number];
  decidedBy: Decider | undefined;
  decidedAt: Date | undefined;
  /** Undefined unless it was rejected. */
  reason: string | undefined;
}

export interface Origin {
  consumerId: string;
  consumerName: string | undefined;
  actor: string | undefined;
  subject: string | undefined;
  requestId: string;
}

export interface NewHandoff extends HandoffRequest, Origin {
  externalId: string;
  /** An earlier attempt may have created the record. */
  mayExist: boolean;
  /** Milliseconds since 1970 by the database's clock: no earlier attempt was made before. */
  since: number;
  /** Entity tag of its item's record from before an earlier attempt of the same request updated it. */
  before: string | undefined;
  isHeld: boolean;
  needsApproval: boolean;
  delaySeconds?: number | undefined;
}

export interface TakenHandoff extends HandoffRequest, Origin, Held {
  externalId: string;
  fence: string;
  mayExist: boolean;
  /** Milliseconds since 1970 by the database's clock: none of its calls came before. */
  since: number;
  isReplaced: boolean;
  /** Whether its item had a record before the first call; undefined where nobody has looked. */
  hadRecord: boolean | undefined;
  /** Entity tag of the item's record from before the first update of it that may have taken effect. */
  before?: string | undefined;
  needsApproval: boolean;
  /** Consecutive failures while the CRM was available. */
  failures: number;
}

export interface StoredHandoff extends Origin {
  externalId: string;
  sequence: string;
  type: HandoffType;
  status: HandoffStatus;
  tripId: string;
  memberId: string | undefined;
  /** Undefined once they are not needed any more. */
  name: string | undefined;
  source: string | undefined;
  validUntil: Date | undefined;
  /** Undefined where none is needed. */
  approval: Approval | undefined;
  nativeId: string | undefined;
  refusal: Refusal | undefined;
  attempts: number;
  /** The oldest first. Undefined in lists, as is the next one's time. */
  latestAttempts?: StoredAttempt[] | undefined;
  /** Undefined also where no time is set. */
  nextAttemptAt?: Date | undefined;
  acceptedAt: Date;
  reference: string | undefined;
  completedAt: Date | undefined;
  /** Another one with each content; microseconds since 1970 by the database's clock. */
  contentStamp: string;
}

export type HandoffOutcome =
  | { status: 'created'; nativeId: string }
  /** `mayExist`: the record may exist nevertheless. */
  | { status: 'failed'; refusal: Refusal; mayExist: boolean }
  /** Still to be delivered; `mayExist`: the record may be there all the same. */
  | { status: 'accepted'; mayExist: boolean; failures: number; pauseSeconds: number };

export interface AttemptFacts {
  /** Both in milliseconds of `now()`. */
  startedAt: number;
  endedAt: number;
  /** Undefined where the CRM has the record. */
  failure: Refusal | undefined;
}

export const keptAttempts = 20;
/** Characters of an attempt's detail. */
export const longestDetail = 500;

export interface StoredAttempt {
  /** 1 is the first. Attempts of processes that were killed are missing. */
  number: number;
  /** RFC 3339: when it started. */
  at: string;
  /** Milliseconds that it took. */
  ms: number;
  /** Null where the CRM has the record. */
  code: ProblemCode | null;
  /** Null once the hand-off's content is erased. */
  detail?: string | null;
}

export interface Settled {
  handoff: Pick<TakenHandoff, 'externalId' | 'fence'>;
  outcome: HandoffOutcome;
  /** Undefined where nothing was tried. */
  attempt?: AttemptFacts;
}

export type Readable = Partial<Record<HandoffType, Visible>>;

export interface HandoffQuery {
  readable: Readable;
  status?: HandoffStatus | undefined;
  tripId?: string | undefined;
  isOpen?: boolean;
  after?: string | undefined;
  limit: number;
}

export interface Cancelling {
  /** Left out: those that wait, and the failed ones. */
  states?: readonly HandoffStatus[];
  /** Whether its content must be what was seen. */
  isAsSeen?: boolean;
}

export function originOf({ requestId, consumerId = '', consumerName, actor, subject }: Call): Origin {
  return { requestId, consumerId, consumerName, actor, subject };
}

export function whyNotCancelled(handoff: StoredHandoff | undefined): string {
  if (handoff?.status === 'created') return 'The hand-off has already been created; the CRM has its record.';
  return `The hand-off is ${handoff?.status} and can no longer be cancelled.`;
}
