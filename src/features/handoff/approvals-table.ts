import { type RawBuilder, sql } from 'kysely';
import type { AuditEvent } from '../../identity/audit/audit-event.ts';
import { addAuditEvents } from '../../identity/audit/audit-event-table.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { interval, isOfTest, timeNow } from '../../platform/store/statements.ts';
import { addEvents } from '../events/event-log.ts';
import type { Decider, StoredHandoff } from './accepted.ts';
import { offerExpired } from './handoff.ts';
import { columns, type EventOf, eventsOf, stampOf, toStored } from './rows.ts';

/** Nobody answers any more after this many days. */
const approvalDays = 7;
const endedAtOnce = 200;

const isUnanswered = sql`h.accepted_at <= now() - ${interval(approvalDays * 86_400)}`;
const isOver = sql`(h.valid_until is not null and h.valid_until <= now())`;

/**
 * Condition: nobody may approve the hand-off any more, or its offer has ended before any call was made for it. Where a call may
 * have made the record, the delivery looks for it first.
 */
export const hasEnded = sql`(
  (h.status = 'awaiting_approval' and (${isUnanswered} or ${isOver}))
  or (h.status = 'accepted' and ${isOver} and not h.may_exist and h.lease_until <= now()))`;

export interface Decision {
  /** As it was when the caller was found to be allowed to decide on it. */
  seen: StoredHandoff;
  verdict: 'approved' | 'rejected';
  by: Decider;
  /** Undefined unless it is rejected. */
  reason: string | undefined;
  audit: AuditEvent;
}

/**
 * Decides on a hand-off that another consumer made, or a test consumer, and that waits for it: it is to be delivered from
 * then on, or never. Returns it, or undefined where it does not wait any more, or is not as it was seen. Throws what the
 * database does.
 */
export function decide(
  database: Database,
  { seen, verdict, by, reason, audit }: Decision,
  eventOf: EventOf,
): Promise<StoredHandoff | undefined> {
  const moves =
    verdict === 'approved'
      ? sql`status = 'accepted'`
      : sql`status = 'rejected', completed_at = ${timeNow}, name = null, source = null, details = null`;
  return database.sql.transaction().execute(async (transaction) => {
    const { rows } = await sql<object>`
      update handoffs h set ${moves}, approval = ${verdict}, decided_by = ${JSON.stringify(by)}, decided_at = ${timeNow},
        reason = ${reason ?? null}, due_at = now(), fence = fence + 1
      where external_id = ${seen.externalId} and status = 'awaiting_approval' and details is not null
        and (consumer_id <> ${by.consumer_id} or ${isOfTest(sql`consumer_id`)}) and not ${hasEnded}
        and ${stampOf} = ${seen.contentStamp}::bigint
        and (actor, actor_subject) is not distinct from (${seen.actor ?? null}::text, ${seen.subject ?? null}::text)
      returning ${columns}`.execute(transaction);
    const [decided] = rows.map(toStored);
    if (decided === undefined) return undefined;
    await addAuditEvents(transaction, [audit]);
    await addEvents(transaction, eventsOf([decided], eventOf));
    return decided;
  });
}

/** Whether what is decided on, or who has handed it off, is another by now. */
export function isReplaced(seen: StoredHandoff, found: StoredHandoff): boolean {
  return (
    found.contentStamp !== seen.contentStamp || found.actor !== seen.actor || found.subject !== seen.subject
  );
}

export function contentReplaced(): Problem {
  const detail = 'The content has been replaced since you read it. Read the hand-off again.';
  return new Problem('precondition_failed', detail);
}

export function whyUndecidable(handoff: StoredHandoff | undefined, verdict: Decision['verdict']): string {
  if (handoff?.approval === undefined) return 'The hand-off needs no approval.';
  if (handoff.status === 'awaiting_approval') return "It's too late to decide; no record will be created.";
  return `The hand-off is ${handoff.status} and can no longer be ${verdict}.`;
}

/** Ends some of the hand-offs of this condition whose time is over; returns them. Throws what the database does. */
export function endSome(
  database: Database,
  isOwn: RawBuilder<boolean>,
  eventOf: EventOf,
): Promise<StoredHandoff[]> {
  return database.sql.transaction().execute(async (transaction) => {
    const found = await sql<{ external_id: string; valid_until: Date | null; is_over: boolean }>`
      select h.external_id, h.valid_until, ${isOver} as is_over from handoffs h where ${hasEnded} and ${isOwn}
      order by h.sequence limit ${endedAtOnce} for update skip locked`.execute(transaction);
    const ending = found.rows;
    if (ending.length === 0) return [];
    const { rows } = await sql<object>`
      update handoffs h set status = 'failed', problem = ended.problem, completed_at = ${timeNow}, fence = fence + 1,
        approval = case when h.status = 'accepted' then h.approval else 'expired' end,
        name = case when h.status = 'accepted' then h.name end,
        source = case when h.status = 'accepted' then h.source end,
        details = case when h.status = 'accepted' then h.details end
      from unnest(${ending.map(({ external_id }) => external_id)}::uuid[],
        ${ending.map(({ is_over, valid_until }) => problemOf(is_over ? valid_until : null))}::text[])
        as ended (external_id, problem)
      where h.external_id = ended.external_id
      returning ${columns}`.execute(transaction);
    const ended = rows.map(toStored);
    await addEvents(transaction, eventsOf(ended, eventOf));
    return ended;
  });
}

function problemOf(ended: Date | null): string {
  if (ended === null) {
    const detail = `The hand-off needed approval, and nobody approved it within ${approvalDays} days.`;
    return JSON.stringify({ code: 'approval_required', detail });
  }
  const { code, message: detail, facts } = offerExpired(ended.getTime());
  return JSON.stringify({ code, detail, errors: facts.errors });
}
