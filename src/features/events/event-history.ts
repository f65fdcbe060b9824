import { type RawBuilder, sql } from 'kysely';
import {
  entry,
  type FieldChange,
  type FoundEntry,
  type HistoryKind,
  type HistorySource,
  mostEntries,
} from '../../api/history.ts';
import { fieldTexts, rawJson } from '../../platform/base/json-text.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import type { StoredEvent } from './event-feed.ts';
import { eventVisibilityOf, isVisibleTo, shownTo } from './event-visibility.ts';

/** Bytes of the data of events that one history reads at most. */
const mostBytes = 4 * 1024 * 1024;

interface Row extends Omit<StoredEvent, 'sequence' | 'id'> {
  /** Names of fields; null where they are not known. */
  changed: string[] | null;
}

/** The fields of a record in an event, as JSON text; undefined where the data is left out. */
type Fields = ReadonlyMap<string, string> | undefined;

/**
 * The history of a quote, a booking or a hand-off from the events that the reader may see. An update is compared with the
 * event before it.
 */
export function createEventHistory(database: Database): HistorySource {
  return async ({ type, id }, { consumer }) => {
    // The steps of a reservation say more.
    if (type === 'reservation') return [];
    const visibility = eventVisibilityOf(consumer);
    const rows = await read(
      database,
      sql`e.resource_type = ${type} and e.resource_id = ${id}
      and ${isVisibleTo(visibility)}`,
    );
    const events = rows.map((row) => shownTo(visibility, row));
    if (type === 'handoff') return events.map(ofHandoff);
    return events.flatMap((event, i) => ofRecord(event, events[i - 1]));
  };
}

async function read(database: Database, isWanted: RawBuilder<unknown>): Promise<Row[]> {
  const statement = sql<Row>`
    select type, resource_type, resource_id, permission_resource, occurred_at, data, data_omitted, changed from (
      select e.*, sum(octet_length(data)) over (order by sequence desc) as bytes from (
        select * from events e where ${isWanted} order by e.sequence desc limit ${mostEntries}
      ) as e
    ) as e where bytes <= ${mostBytes} order by sequence`;
  const { rows } = await orUnavailable(() => statement.execute(database.sql), { keeps: 'keeps the events' });
  return rows;
}

function ofHandoff({ type, occurred_at }: Row): FoundEntry {
  const kind = verbOf(type) as HistoryKind;
  // A hand-off that is delivered again may fail again.
  return entry(occurred_at, kind, {
    once: kind === 'failed' ? `failed ${occurred_at.toISOString()}` : kind,
  });
}

function ofRecord(event: Row, before: Row | undefined): FoundEntry[] {
  const { occurred_at: at } = event;
  const verb = verbOf(event.type);
  const isWholeSecond = true;
  if (verb === 'created' && before !== undefined && verbOf(before.type) === 'deleted')
    return [entry(at, 'restored', { isWholeSecond })];
  const fields = fieldsOf(event);
  if (verb === 'created') return creationIn(fields, at);
  if (verb === 'deleted') return [entry(at, 'deleted', { isWholeSecond })];
  const changes = changesOf(event, fields, before && fieldsOf(before));
  // An update without changes has changed hidden fields.
  const updates = changes?.length === 0 ? [] : [entry(at, 'updated', { isWholeSecond, changes })];
  return before === undefined ? [...creationIn(fields, undefined), ...updates] : updates;
}

function verbOf(type: string): string {
  return type.slice(type.indexOf('.') + 1);
}

function fieldsOf({ data, data_omitted, type }: Row): Fields {
  return data_omitted || verbOf(type) === 'deleted' ? undefined : fieldTexts(data);
}

/** The creation, by the record's own fields: the event's time may be that of a later change. */
function creationIn(fields: Fields, otherwise: Date | undefined): FoundEntry[] {
  const stored = JSON.parse(fields?.get('created_at') ?? 'null') as string | null;
  const at = stored === null ? otherwise : new Date(stored);
  if (at === undefined) return [];
  return [entry(at, 'created', { isWholeSecond: true, by: makerIn(fields), once: 'created' })];
}

function makerIn(fields: Fields): FoundEntry['by'] {
  return JSON.parse(fields?.get('created_by') ?? 'null') as FoundEntry['by'];
}

/** Null where they are unknown. Where only the names are known, the values of before are left out. */
function changesOf({ changed }: Row, fields: Fields, before: Fields): FieldChange[] | null {
  if (fields === undefined) return null;
  // A field that is not in the event is hidden.
  const names =
    before === undefined
      ? changed?.filter((name) => fields.has(name))
      : new Set([...before.keys(), ...fields.keys()]);
  if (names === undefined) return null;
  return [...names]
    .filter((name) => name !== 'updated_at' && fields.get(name) !== before?.get(name))
    .map((field) => {
      if (field === 'details') return { field };
      return {
        field,
        ...(before !== undefined && { from: valueOf(before.get(field)) }),
        to: valueOf(fields.get(field)),
      };
    });
}

/** The value of a JSON text; a number keeps its digits. */
function valueOf(text = 'null'): unknown {
  return /^[-\d]/.test(text) ? rawJson(text) : JSON.parse(text);
}
