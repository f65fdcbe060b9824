import { sql } from 'kysely';
import type { Held } from '../../platform/store/leases.ts';
import type { NewEvent } from '../events/event-log.ts';
import type {
  Approval,
  Decider,
  Origin,
  Refusal,
  StoredAttempt,
  StoredHandoff,
  TakenHandoff,
} from './accepted.ts';
import type { HandoffType } from './handoff.ts';

/** When its content was stored, in microseconds since 1970. */
const stamp = '(extract(epoch from h.content_at) * 1000000)::bigint';
export const stampOf = sql.raw(stamp);

export const columns = sql.raw(
  `h.external_id, h.sequence::text, h.type, h.status, h.consumer_id, h.consumer_name, h.actor, h.actor_subject, h.request_id, h.trip_id,
   h.member_id, h.name, h.source, h.valid_until, h.approval, h.decided_by, h.decided_at, h.reason, h.native_id, h.problem,
   h.attempts, h.accepted_at, h.completed_at, h.reference, h.on_repeat,
   ${stamp}::text as content_stamp`,
);

interface CommonRow {
  external_id: string;
  type: HandoffType;
  consumer_id: string;
  consumer_name: string | null;
  actor: string | null;
  actor_subject: string | null;
  request_id: string;
  trip_id: string;
  valid_until: Date | null;
  accepted_at: Date;
  reference: string | null;
  on_repeat: 'return' | 'update' | null;
}

export interface Row extends CommonRow {
  sequence: string;
  status: StoredHandoff['status'];
  member_id: string | null;
  name: string | null;
  source: string | null;
  approval: Approval['status'] | null;
  decided_by: string | null;
  decided_at: Date | null;
  reason: string | null;
  native_id: string | null;
  problem: string | null;
  attempts: number;
  completed_at: Date | null;
  content_stamp: string;
  tries?: StoredAttempt[];
  next_attempt_at?: Date | null;
}

export interface TakenRow extends CommonRow, Held {
  member_id: string;
  name: string;
  source: string;
  details: string;
  approval: Approval['status'] | null;
  fence: string;
  may_exist: boolean;
  tried_since: Date;
  replaced: boolean;
  had_record: boolean | null;
  entity_tag_before: string | null;
  failures: number;
}

export function toStored(row: Row): StoredHandoff {
  return {
    ...toCommon(row),
    sequence: row.sequence,
    status: row.status,
    memberId: row.member_id ?? undefined,
    name: row.name ?? undefined,
    source: row.source ?? undefined,
    validUntil: row.valid_until ?? undefined,
    approval: approvalOf(row),
    nativeId: row.native_id ?? undefined,
    refusal: row.problem === null ? undefined : (JSON.parse(row.problem) as Refusal),
    attempts: row.attempts,
    latestAttempts: row.tries,
    nextAttemptAt: row.next_attempt_at ?? undefined,
    acceptedAt: row.accepted_at,
    reference: row.reference ?? undefined,
    completedAt: row.completed_at ?? undefined,
    contentStamp: row.content_stamp,
  };
}

export function toTaken(row: TakenRow): TakenHandoff {
  const { name, source, details } = row;
  return {
    ...toCommon(row),
    memberId: row.member_id,
    result: { name, source, details },
    validUntil: row.valid_until?.getTime(),
    fence: row.fence,
    mayExist: row.may_exist,
    since: row.tried_since.getTime(),
    isReplaced: row.replaced,
    hadRecord: row.had_record ?? undefined,
    before: row.entity_tag_before ?? undefined,
    reference: row.reference ?? undefined,
    onRepeat: row.on_repeat ?? undefined,
    needsApproval: row.approval !== null,
    failures: row.failures,
    deadline: row.deadline,
  };
}

function toCommon(row: CommonRow): Origin & { externalId: string; type: HandoffType; tripId: string } {
  return {
    externalId: row.external_id,
    type: row.type,
    tripId: row.trip_id,
    consumerId: row.consumer_id,
    consumerName: row.consumer_name ?? undefined,
    actor: row.actor ?? undefined,
    subject: row.actor_subject ?? undefined,
    requestId: row.request_id,
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
