import { hash } from 'node:crypto';
import { isConsumerId } from '../../identity/consumers/credentials.ts';
import type { ChangedRecord } from '../../records/changes.ts';
import type { FieldValues } from '../../records/records.ts';
import { createRepresentation } from '../../records/representation.ts';
import type { Resource } from '../../records/resource.ts';
import { createRepresentations, shownNames } from '../../records/shown-fields.ts';
import type { EventType, NewEvent } from './event-log.ts';
import type { Known, KnownIds, KnownRecord, PendingDeletion } from './known-ids.ts';

export type WatchedResource = Resource & { collection: 'members' | 'quotes' | 'bookings' };

export type Diff = (
  record: ChangedRecord,
  ids: KnownIds,
  options: {
    /** An unknown record counts as created if it was created since then (milliseconds since 1970, by the CRM's clock). */
    startedAt: number;
    isSilent: boolean;
  },
) => NewEvent | undefined;

/**
 * Makes the function that derives events from changed records of a resource. The API identifies records by External ID: if
 * an id moves from one record of the CRM to another, it was updated if the content differs. Which ids are deleted is known
 * at the end of a poll, when all changes have been read: see `PendingDeletion`.
 */
export function createDiff(resource: WatchedResource): Diff {
  // A field that the org does not show at the moment is null: all other changes go on.
  const represent = createRepresentation({ fields: resource.fields });
  const hashesOf = createHashes(resource);
  return (record, ids, { startedAt, isSilent }) => {
    const key = { resource: resource.name, nativeId: record.nativeId };
    const before = ids.record(key);
    const known = knownOf(record, before, hashesOf);
    if (known === undefined) return undefined;
    const now = { ...key, ...known };
    const announced = ids.announced(now);
    if (isDifferent(before, now)) ids.set(now);
    if (isSilent) return undefined;
    addPendingDeletion(
      ids,
      record,
      before === undefined ? deletedBeforeFirstRead(now, announced !== undefined) : lostBy(before, now),
    );
    if (isUnreported(now, announced)) return undefined;
    const isNew = announced === undefined && (before !== undefined || isMadeSince(startedAt, record));
    const what = `${resource.name}.${isNew ? 'created' : 'updated'}` as EventType;
    return eventOf(resource, now, {
      type: what,
      occurredAt: record.stamp,
      data: represent(record.values),
      changed: changedFields(announced, now),
    });
  };
}

function isUnreported({ isDeleted, content }: Known, announced: { content: string } | undefined): boolean {
  return isDeleted || announced?.content === content;
}

function eventOf(
  { collection }: WatchedResource,
  { resource, externalId, consumerId }: Pick<KnownRecord, 'resource' | 'externalId' | 'consumerId'>,
  event: Pick<NewEvent, 'type' | 'occurredAt' | 'data' | 'changed'>,
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
function deletedBeforeFirstRead(now: KnownRecord, isKnownId: boolean): Lost | undefined {
  return now.isDeleted && !isKnownId ? { ...now, content: null } : undefined;
}

function lostBy(before: KnownRecord, now: KnownRecord): Lost | undefined {
  const isLost = !before.isDeleted && (now.isDeleted || now.externalId !== before.externalId);
  return isLost ? before : undefined;
}

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
    before.parts !== now.parts ||
    before.isDeleted !== now.isDeleted
  );
}

/** A record that has lost its External ID is deleted for the API. */
function knownOf(
  { externalId, isDeleted, values }: ChangedRecord,
  known: Known | undefined,
  hashesOf: (values: FieldValues) => Pick<Known, 'content' | 'parts'>,
) {
  if (externalId === undefined) return known && { ...known, isDeleted: true };
  // Absent where the org did not say; null where nobody made it through the API, or no longer counts as its maker.
  const { consumer_id: consumerId = known?.consumerId ?? null } = values;
  return { externalId, consumerId: makerOf(consumerId), ...hashesOf(values), isDeleted };
}

/** Null for what is no consumer's id: people write the column too, and the database takes no NUL. */
function makerOf(consumerId: string | null): string | null {
  return consumerId !== null && isConsumerId(consumerId) ? consumerId : null;
}

/** Hashes without `updated_at`: a new time alone is no change. */
function createHashes({ fields }: Resource): (values: FieldValues) => { content: string; parts: string } {
  const { updated_at: _time, ...content } = fields;
  const representFor = createRepresentations({ fields: content });
  const represent = representFor(undefined);
  // Each with the id, so that equal values of different records have different hashes.
  const writers = shownNames({ fields: content }).map((name) => [name, representFor([name])] as const);
  return (values) => {
    const whole = hash('sha256', represent(values), 'base64url');
    const parts = writers.map(([name, write]) => [name, short(hash('sha256', write(values), 'base64url'))]);
    return { content: whole, parts: JSON.stringify({ ...Object.fromEntries(parts), '': short(whole) }) };
  };
}

/** 60 bits of a hash: there is one for each field of each record. */
function short(hashed: string): string {
  return hashed.slice(0, 10);
}

/**
 * The names of the fields that differ from what was announced; undefined where that is not known: an earlier program
 * stored it, which also leaves the hashes of the fields as they were when it stores a change.
 */
function changedFields(
  announced: Pick<Known, 'content' | 'parts'> | undefined,
  { parts }: Pick<Known, 'parts'>,
): string[] | undefined {
  const before = readParts(announced?.parts);
  const now = readParts(parts);
  if (before[''] === undefined || before[''] !== short(announced?.content ?? '')) return undefined;
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].filter((name) => name !== '' && before[name] !== now[name]);
}

function readParts(parts: string | null | undefined): Record<string, string | undefined> {
  return JSON.parse(parts ?? '{}') as Record<string, string>;
}
