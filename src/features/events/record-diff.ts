import { hash } from 'node:crypto';
import type { ChangedRecord } from '../../records/changes.ts';
import type { FieldValues } from '../../records/records.ts';
import { createRepresentation, type Represent } from '../../records/representation.ts';
import type { Resource } from '../../records/resource.ts';
import type { EventType, NewEvent } from './event-log.ts';
import type { Known, KnownIds, KnownRecord, PendingDeletion } from './known-ids.ts';

/** A resource whose changes are events. */
export type WatchedResource = Resource & { collection: 'members' | 'quotes' | 'bookings' };

export interface ChangeContext {
  /** An unknown record counts as created if it was created since then (milliseconds since 1970, by the CRM's clock). */
  startedAt: number;
  /** No event is made. */
  isSilent: boolean;
}

/** Adds a changed record to the known ones. Returns its event; none for a deletion, which is decided at the end of the poll. */
export type Diff = (record: ChangedRecord, ids: KnownIds, options: ChangeContext) => NewEvent | undefined;

/**
 * Makes the function that derives events from changed records of a resource. The API identifies records by External ID: if
 * an id moves from one record of the CRM to another, it was updated if the content differs. Which ids are deleted is known
 * at the end of a poll, when all changes have been read: see `PendingDeletion`.
 */
export function createDiff(resource: WatchedResource): Diff {
  const represent = createRepresentation(resource);
  const contentOf = createContentHash(resource);
  return (record, ids, { startedAt, isSilent }) => {
    const key = { resource: resource.name, nativeId: record.nativeId };
    const before = ids.record(key);
    const known = knownOf(record, before, contentOf);
    if (known === undefined) return undefined;
    const now = { ...key, ...known };
    const announced = ids.announcedContent(now);
    if (isDifferent(before, now)) ids.set(now);
    if (isSilent) return undefined;
    addPendingDeletion(
      ids,
      record,
      before === undefined ? neverSeen(now, announced !== undefined) : lostBy(before, now),
    );
    if (now.isDeleted || announced === now.content) return undefined;
    const isNew = announced === undefined && (before !== undefined || isMadeSince(startedAt, record));
    const what = `${resource.name}.${isNew ? 'created' : 'updated'}` as EventType;
    return eventOf(resource, now, { type: what, occurredAt: record.stamp, data: represent(record.values) });
  };
}

function eventOf(
  { collection }: WatchedResource,
  { resource, externalId, consumerId }: Pick<KnownRecord, 'resource' | 'externalId' | 'consumerId'>,
  event: Pick<NewEvent, 'type' | 'occurredAt' | 'data'>,
): NewEvent {
  return {
    ...event,
    resource: { type: resource, id: externalId },
    permission: collection,
    consumerId: consumerId ?? undefined,
  };
}

type Lost = Omit<PendingDeletion, 'lostAt'>;

function addPendingDeletion(ids: KnownIds, { stamp }: ChangedRecord, lost: Lost | undefined): void {
  if (lost !== undefined && !ids.isHeld(lost)) ids.addPending({ ...lost, lostAt: stamp });
}

function isMadeSince(startedAt: number, { values }: ChangedRecord): boolean {
  return Date.parse(values['created_at'] ?? '') >= startedAt;
}

/** A record that was created and deleted between two polls has a deletion event too: its creator may wait for one. */
function neverSeen(now: KnownRecord, isKnownId: boolean): Lost | undefined {
  return now.isDeleted && !isKnownId ? { ...now, content: null } : undefined;
}

/** The External ID that the record had and no longer has. */
function lostBy(before: KnownRecord, now: KnownRecord): Lost | undefined {
  const isLost = !before.isDeleted && (now.isDeleted || now.externalId !== before.externalId);
  return isLost ? before : undefined;
}

/** The event of an External ID that no record has any more. */
export function deletionOf(resource: WatchedResource, pending: PendingDeletion): NewEvent {
  const type = `${resource.name}.deleted` as EventType;
  const data = JSON.stringify({ id: pending.externalId });
  return eventOf(resource, pending, { type, occurredAt: pending.lostAt, data });
}

function isDifferent(before: Known | undefined, now: Known): boolean {
  return (
    before === undefined ||
    before.externalId !== now.externalId ||
    before.consumerId !== now.consumerId ||
    before.content !== now.content ||
    before.isDeleted !== now.isDeleted
  );
}

/** What is known of a record now. One that has lost its External ID is deleted for the API. */
function knownOf(
  { externalId, isDeleted, values }: ChangedRecord,
  known: Known | undefined,
  contentOf: Represent,
) {
  if (externalId === undefined) return known && { ...known, isDeleted: true };
  // Absent where the org did not say; null where nobody made it through the API, or no longer counts as its maker.
  const { consumer_id: consumerId = known?.consumerId ?? null } = values;
  return { externalId, consumerId, content: contentOf(values), isDeleted };
}

/** A change of the time of the last change alone is none. */
function createContentHash({ fields }: Resource): Represent {
  const { updated_at: _time, ...content } = fields;
  const represent = createRepresentation({ fields: content });
  return (values: FieldValues) => hash('sha256', represent(values), 'base64url');
}
