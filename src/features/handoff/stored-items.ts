import { sql } from 'kysely';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { leasesOf } from '../../platform/store/leases.ts';
import { isFromBefore, type StoredRecord } from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import { addEvents } from '../events/event-log.ts';
import type { NewHandoff, Origin, StoredHandoff } from './accepted.ts';
import {
  confirm,
  type HandoffConfirmation,
  type HandoffRequest,
  isOwnMaking,
  requireSameMember,
  updateOf,
} from './handoff.ts';
import { columns, type EventOf, eventsOf, type Row, toStored } from './rows.ts';

/*
 * An item that is handed off again meets the stored hand-off of the time before. While that one waits, its content may be
 * replaced; once it has ended, it makes room.
 */

const lease = leasesOf({ table: 'handoffs', row: 'h', key: ['external_id'] });

/** An item that is handed off again. */
interface Again {
  stored: StoredHandoff | undefined;
  request: HandoffRequest;
  origin: Origin;
  /** The permission of its consumer asks for approval by now. */
  needsApproval: boolean;
}

/** Pauses, in milliseconds, while a hand-off of the item is delivered or removed. */
export const pausesMs = [50, 100, 200, 400, 800, 1600];

export function itemInUse(): Problem {
  const detail =
    'The item is being delivered, or removed, at the moment. Send the same request again shortly.';
  return new Problem('idempotency_in_progress', detail, { retryAfter: 1 });
}

/** States in which a hand-off makes room for another one of its item; a created one stays until one is stored. */
const endedStates = ['failed', 'cancelled', 'rejected'] as const;

type Waiting = 'accepted' | 'awaiting_approval';

function isWaiting(status: StoredHandoff['status']): status is Waiting {
  return status === 'accepted' || status === 'awaiting_approval';
}

/** Throws `conflict` where the hand-off that waits is for another member. */
export function requireSameItem(
  stored: StoredHandoff | undefined,
  { memberId }: Pick<HandoffRequest, 'memberId'>,
): void {
  if (stored !== undefined && isWaiting(stored.status)) requireSameMember(stored.memberId, memberId);
}

/**
 * What the stored hand-off waits for, with the new content where the request says so; undefined where none waits any more.
 * `busy`: it is being delivered, or what a call of it has made is being removed. Throws what the database does.
 */
export async function meetStored(
  database: Database,
  { stored, request, origin, needsApproval }: Again,
  eventOf: EventOf,
): Promise<Waiting | 'busy' | undefined> {
  if (stored === undefined || stored.status === 'created') return undefined;
  const { externalId, status } = stored;
  if (!isWaiting(status)) return (await makeRoom(database, externalId, endedStates)) ? undefined : 'busy';
  if (request.onRepeat !== 'update') return status;
  const replaced = await replaceContent(database, { externalId, request, origin, needsApproval }, eventOf);
  if (replaced === undefined) return 'busy';
  return replaced.status === 'accepted' ? 'accepted' : 'awaiting_approval';
}

/**
 * Replaces what a waiting hand-off holds. An approval that was given for other content begins anew,
 * and other content needs one that needed none before where the permission asks for it by now. Undefined where it does
 * not wait any more, or is being delivered at the moment. Throws what the database does.
 */
function replaceContent(
  database: Database,
  { externalId, request, origin, needsApproval }: Omit<Again, 'stored'> & { externalId: string },
  eventOf: EventOf,
): Promise<StoredHandoff | undefined> {
  const { result, validUntil } = request;
  const until = validUntil === undefined ? null : new Date(validUntil);
  const isOther = sql`(h.name, h.details, h.valid_until)
    is distinct from (${result.name}::text, ${result.details}::text, ${until}::timestamptz)`;
  const asksAgain = sql`(h.status = 'accepted' and (h.approval = 'approved' or ${needsApproval}::boolean) and ${isOther})`;
  return database.sql.transaction().execute(async (transaction) => {
    const { rows } = await sql<Row & { asked: boolean }>`
      with before as (
        select external_id, ${asksAgain} as asked, ${isOther} as is_other from handoffs h
        where external_id = ${externalId} and status in ('accepted', 'awaiting_approval') and ${lease.isOver}
        for update
      )
      update handoffs h set name = ${result.name}, details = ${result.details},
        valid_until = ${until}, on_repeat = 'update',
        actor = ${origin.actor ?? null}, actor_subject = ${origin.subject ?? null}, request_id = ${origin.requestId}, fence = h.fence + 1, due_at = now(),
        content_at = case when is_other then greatest(now(), h.content_at + interval '1 microsecond') else h.content_at end,
        status = case when asked then 'awaiting_approval' else h.status end,
        approval = case when asked then 'pending' else h.approval end,
        decided_by = case when asked then null else h.decided_by end,
        decided_at = case when asked then null else h.decided_at end
      from before where h.external_id = before.external_id
      returning ${columns}, asked`.execute(transaction);
    const [row] = rows;
    if (row === undefined) return undefined;
    const replaced = toStored(row);
    if (row.asked) await addEvents(transaction, eventsOf([replaced], eventOf));
    return replaced;
  });
}

/**
 * Deletes a hand-off of these states, so that its item can be handed off again; false where it is in another state, or what a
 * call of it has made is being removed at the moment. Throws what the database does.
 */
export async function makeRoom(
  database: Database,
  externalId: string,
  states: readonly StoredHandoff['status'][],
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    delete from handoffs h
    where external_id = ${externalId} and status = any(${states}::text[]) and ${lease.isOver}`.execute(
    database.sql,
  );
  return numAffectedRows === 1n;
}

/**
 * The confirmation of a record that the item has; undefined where one is to be made, or changed later. Throws
 * `approval_required`, `conflict`.
 */
export function knownItem(
  handoff: NewHandoff,
  resource: Resource,
  record: StoredRecord,
): HandoffConfirmation | undefined {
  const { type, externalId, mayExist, needsApproval, onRepeat, since } = handoff;
  const isOwn = mayExist && isOwnMaking({ ...record, found: 'after loss' }, since);
  if (isOwn && !isFromBefore(record, since)) return confirm(type, record, externalId);
  if (record.isDeleted || (onRepeat === 'update' && !needsApproval)) return undefined;
  updateOf(resource, handoff, { record, needsApproval });
  return confirm(type, record, externalId, 'existing');
}
