import { sql } from 'kysely';
import type { NewEvent } from '../events/event-log.ts';
import type { Approval, Decider, Refusal, StoredHandoff } from './accepted.ts';
import type { HandoffType } from './handoff.ts';

/** Answers show milliseconds: what is stored is what is shown. */
export const now = sql.raw("date_trunc('milliseconds', now())");

/** What a `StoredHandoff` is read from, of the table `h`. */
export const columns = sql.raw(
  `h.external_id, h.sequence::text, h.type, h.status, h.consumer_id, h.consumer_name, h.actor, h.request_id, h.trip_id,
   h.member_id, h.name, h.source, h.valid_until, h.approval, h.decided_by, h.decided_at, h.reason, h.native_id, h.problem,
   h.attempts, h.accepted_at, h.completed_at`,
);

export interface Row {
  external_id: string;
  sequence: string;
  type: HandoffType;
  status: StoredHandoff['status'];
  consumer_id: string;
  consumer_name: string | null;
  actor: string | null;
  request_id: string;
  trip_id: string;
  member_id: string | null;
  name: string | null;
  source: string | null;
  valid_until: Date | null;
  approval: Approval['status'] | null;
  decided_by: string | null;
  decided_at: Date | null;
  reason: string | null;
  native_id: string | null;
  problem: string | null;
  attempts: number;
  accepted_at: Date;
  completed_at: Date | null;
}

export function toStored(row: Row): StoredHandoff {
  return {
    externalId: row.external_id,
    sequence: row.sequence,
    type: row.type,
    status: row.status,
    consumerId: row.consumer_id,
    consumerName: row.consumer_name ?? undefined,
    actor: row.actor ?? undefined,
    requestId: row.request_id,
    tripId: row.trip_id,
    memberId: row.member_id ?? undefined,
    name: row.name ?? undefined,
    source: row.source ?? undefined,
    validUntil: row.valid_until ?? undefined,
    approval: approvalOf(row),
    nativeId: row.native_id ?? undefined,
    refusal: row.problem === null ? undefined : (JSON.parse(row.problem) as Refusal),
    attempts: row.attempts,
    acceptedAt: row.accepted_at,
    completedAt: row.completed_at ?? undefined,
  };
}

function approvalOf({ approval: status, decided_by, decided_at, reason }: Row): Approval | undefined {
  if (status === null) return undefined;
  return {
    status,
    decidedBy: decided_by === null ? undefined : (JSON.parse(decided_by) as Decider),
    decidedAt: decided_at ?? undefined,
    reason: reason ?? undefined,
  };
}

/** The event that shows how a hand-off is now; undefined where there is none. */
export type EventOf = (handoff: StoredHandoff) => NewEvent | undefined;

export function eventsOf(handoffs: readonly StoredHandoff[], eventOf: EventOf): NewEvent[] {
  return handoffs.map(eventOf).filter((event) => event !== undefined);
}
