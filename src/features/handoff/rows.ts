import { sql } from 'kysely';
import { withoutNulls } from '../../platform/store/statements.ts';
import type { NewEvent } from '../events/event-log.ts';
import type { Approval, Decider, Refusal, StoredHandoff, TakenHandoff } from './accepted.ts';
import type { HandoffRequest } from './handoff.ts';

/** When its content was stored, in microseconds since 1970. */
export const stampOf = sql.raw('(extract(epoch from h.content_at) * 1000000)::bigint');

export const originColumns = sql.raw(
  `h.consumer_id as "consumerId", h.consumer_name as "consumerName", h.actor, h.actor_subject as subject,
   h.request_id as "requestId"`,
);

export const columns = sql`h.external_id as "externalId", h.sequence::text, h.type, h.status, ${originColumns},
  h.trip_id as "tripId", h.member_id as "memberId", h.name, h.source, h.valid_until as "validUntil", h.approval,
  h.decided_by as "decidedBy", h.decided_at as "decidedAt", h.reason, h.native_id as "nativeId", h.problem, h.attempts,
  h.accepted_at as "acceptedAt", h.completed_at as "completedAt", h.reference, ${stampOf}::text as "contentStamp"`;

type StoredRow = Omit<StoredHandoff, 'approval' | 'refusal'> &
  Omit<Approval, 'status' | 'decidedBy'> & {
    approval: Approval['status'] | undefined;
    decidedBy: string | undefined;
    problem: string | undefined;
  };

type TakenRow = Omit<TakenHandoff, 'result' | 'validUntil' | 'since' | 'needsApproval'> &
  HandoffRequest['result'] & {
    validUntil: Date | undefined;
    triedSince: Date;
    approval: Approval['status'] | undefined;
  };

/** From a row of `columns`. */
export function toStored(row: object): StoredHandoff {
  const {
    approval: status,
    decidedBy,
    decidedAt,
    reason,
    problem,
    ...stored
  } = withoutNulls(row) as StoredRow;
  const decider = decidedBy === undefined ? undefined : (JSON.parse(decidedBy) as Decider);
  return {
    ...stored,
    approval: status && { status, decidedBy: decider, decidedAt, reason },
    refusal: problem === undefined ? undefined : (JSON.parse(problem) as Refusal),
  };
}

export function toTaken(row: object): TakenHandoff {
  const { name, source, details, validUntil, triedSince, approval, ...taken } = withoutNulls(row) as TakenRow;
  return {
    ...taken,
    result: { name, source, details },
    validUntil: validUntil?.getTime(),
    since: triedSince.getTime(),
    needsApproval: approval !== undefined,
  };
}

/** The event that shows how a hand-off is now; undefined where there is none. */
export type EventOf = (handoff: StoredHandoff) => NewEvent | undefined;

export function eventsOf(handoffs: readonly StoredHandoff[], eventOf: EventOf): NewEvent[] {
  return handoffs.map(eventOf).filter((event) => event !== undefined);
}
