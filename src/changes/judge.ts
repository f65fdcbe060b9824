import { hash } from 'node:crypto';
import type { ChangedRecord } from '../resources/changes.ts';
import type { FieldValues } from '../resources/records.ts';
import { createRepresentation, type Represent } from '../resources/representation.ts';
import type { Resource } from '../resources/resource.ts';
import type { EventType, NewEvent } from './event-log.ts';
import type { Known } from './reader-table.ts';

/** A resource whose changes are events. */
export type WatchedResource = Resource & { collection: 'members' | 'quotes' | 'bookings' };

/** What a changed record comes to. */
export interface Judged {
  /** What is known of the record now; undefined where the API has never shown it. */
  known: Known | undefined;
  events: NewEvent[];
}

export type Judge = (record: ChangedRecord, known: Known | undefined, startedAt: number) => Judged;

/**
 * Makes what tells the events of a resource's records from what was known of them. A record that was not known counts as
 * created where it was made after `startedAt` (milliseconds since 1970, by the CRM's clock), and as updated otherwise.
 */
export function createJudge(resource: WatchedResource): Judge {
  const represent = createRepresentation(resource);
  const contentOf = createContentHash(resource);
  return (record, known, startedAt) => {
    const now = knownOf(record, known, contentOf);
    const { gone, there } = compare(record, known, now, startedAt);
    const event = (what: string, id: string, data: string): NewEvent => ({
      type: `${resource.name}.${what}` as EventType,
      resource: { type: resource.name, id },
      occurredAt: record.stamp,
      data,
      permission: resource.collection,
      consumerId: now?.consumerId ?? undefined,
    });
    const events: NewEvent[] = [];
    if (gone !== undefined) events.push(event('deleted', gone, JSON.stringify({ id: gone })));
    if (there !== undefined && now) events.push(event(there, now.externalId, represent(record.values)));
    return { known: now, events };
  };
}

/** What is known of a record now. One that has lost its External ID is deleted for the API. */
function knownOf(
  { externalId, isDeleted, values }: ChangedRecord,
  known: Known | undefined,
  contentOf: Represent,
) {
  if (externalId === undefined) return known && { ...known, isDeleted: true };
  // Absent where the org could not tell; null where nobody made it through the API, or no longer counts as its maker.
  const { consumer_id: consumerId = known?.consumerId ?? null } = values;
  return { externalId, consumerId, content: contentOf(values), isDeleted };
}

interface Difference {
  /** The External ID under which the API no longer has the record. */
  gone?: string | undefined;
  /** What became of it under the one that it has now. */
  there?: 'created' | 'updated' | undefined;
}

function compare(
  { values }: ChangedRecord,
  known: Known | undefined,
  now: Known | undefined,
  startedAt: number,
): Difference {
  if (now === undefined) return {};
  if (known === undefined) {
    // One that came and went unseen is told of, too: whoever made it may wait for news of it.
    if (now.isDeleted) return { gone: now.externalId };
    const isNew = Date.parse(values['created_at'] ?? '') >= startedAt;
    return { there: isNew ? 'created' : 'updated' };
  }
  const before = known.isDeleted ? undefined : known.externalId;
  if (now.isDeleted) return { gone: before };
  if (before !== now.externalId) return { gone: before, there: 'created' };
  return { there: known.content === now.content ? undefined : 'updated' };
}

/** A change of the time of the last change alone is none. */
function createContentHash({ fields }: Resource): Represent {
  const { updated_at: _time, ...content } = fields;
  const represent = createRepresentation({ fields: content });
  return (values: FieldValues) => hash('sha256', represent(values), 'base64url');
}
