import type { Field, ObjectType, Row, Schema, Value } from './schema.ts';
import { foldFor } from './schema.ts';
import { createTimeline, type Timeline } from './timeline.ts';

/** `[object, row]` for a record written, also into the recycle bin, `[object, id]` for one that is gone from there too. */
export type JournalEntry = [object: string, change: Row | string];

/** Where equal values of one field are found without a scan. */
interface Index {
  field: Field;
  fold: (value: Value) => Value;
  rows: Map<Value, Set<Row>>;
}

export interface Table {
  type: ObjectType;
  rows: Map<string, Row>;
  indexes: Map<string, Index>;
  timeline: Timeline;
  /** By id: the record as it lies in the recycle bin, undefined where it is gone from there. */
  deleted: Map<string, Row | undefined>;
}

export interface Change {
  table: Table;
  before: Row | undefined;
  after: Row | undefined;
}

export interface Store {
  table(type: ObjectType): Table;
  get(type: ObjectType, id15: string): Row | undefined;
  /** Rows whose indexed field (id, external id, unique or lookup) has this value, in the field's own case rule. */
  find(type: ObjectType, field: Field, value: Value): Row[];
  /** Replaces `before` by `after`; either may be absent, or be in the recycle bin. Inside a transaction only. */
  write(type: ObjectType, before: Row | undefined, after: Row | undefined): void;
  /** Runs `work` to the end or not at all; nested calls join the outer transaction. */
  transaction<T>(work: () => T): T;
  /** A point in the running transaction that `rollback` returns to. */
  savepoint(): number;
  rollback(savepoint: number): void;
  /** Takes the objects of another schema; their records stay, also those of an object that is missing for a while. */
  restructure(schema: Schema): void;
  /** Every stored record and every mark of a deleted one, as journal entries; not those of the set-up. */
  entries(): Iterable<JournalEntry>;
  /** Takes an entry of the journal in, outside any transaction. */
  restore(entry: JournalEntry): void;
  clear(): void;
}

function isIndexed(field: Field): boolean {
  // Every record points to the one user: an index of that would hold all rows under one value.
  const lookup = field.type === 'reference' && !field.referenceTo.includes('User');
  return field.externalId || field.unique || lookup;
}

function createTable(type: ObjectType): Table {
  const indexed = [...type.all.values()].filter(isIndexed);
  const key =
    indexed.find((field) => field.name === 'External_Id__c') ?? indexed.find((field) => field.externalId);
  return {
    type,
    rows: new Map(),
    indexes: new Map(indexed.map((field) => [field.name, { field, fold: foldFor(field), rows: new Map() }])),
    timeline: createTimeline(key),
    deleted: new Map(),
  };
}

function indexAdd(index: Index, row: Row): void {
  const value = row[index.field.name];
  if (value === undefined) return;
  const folded = index.fold(value);
  const rows = index.rows.get(folded);
  if (rows === undefined) index.rows.set(folded, new Set([row]));
  else rows.add(row);
}

function indexRemove(index: Index, row: Row): void {
  const value = row[index.field.name];
  if (value === undefined) return;
  const folded = index.fold(value);
  const rows = index.rows.get(folded);
  rows?.delete(row);
  if (rows?.size === 0) index.rows.delete(folded);
}

/** Records in the recycle bin have IsDeleted, and are neither in indexes nor in the order. */
function isLive(row: Row | undefined): row is Row {
  return row !== undefined && row['IsDeleted'] !== true;
}

function apply({ table, before, after }: Change): void {
  const id15 = (after ?? before)?.Id.slice(0, 15) ?? '';
  const from = isLive(before) ? before : undefined;
  const to = isLive(after) ? after : undefined;
  for (const index of table.indexes.values()) {
    if (from !== undefined) indexRemove(index, from);
    if (to !== undefined) indexAdd(index, to);
  }
  table.timeline.replace(from, to);
  if (to === undefined) {
    table.rows.delete(id15);
    table.deleted.set(id15, after);
  } else {
    table.rows.set(id15, to);
    table.deleted.delete(id15);
  }
}

function undo({ table, before, after }: Change): void {
  apply({ table, before: after, after: before });
  // Undoing an insert must not leave the mark of a deleted record behind.
  if (before === undefined && after !== undefined) table.deleted.delete(after.Id.slice(0, 15));
}

function toEntry({ table, before, after }: Change): JournalEntry {
  return [table.type.name, after ?? before?.Id ?? ''];
}

function* entriesOf(table: Table): Iterable<JournalEntry> {
  for (const row of table.rows.values()) yield [table.type.name, row];
  for (const [id, row] of table.deleted) yield [table.type.name, row ?? id];
}

function* allEntries(tables: Iterable<Table>): Iterable<JournalEntry> {
  for (const table of tables) if (!table.type.setup) yield* entriesOf(table);
}

function restore(tables: ReadonlyMap<string, Table>, [name, change]: JournalEntry): void {
  const table = tables.get(name);
  // An object that left the org takes its records with it, and the set-up has none here.
  if (table === undefined || table.type.setup) return;
  const id15 = (typeof change === 'string' ? change : change.Id).slice(0, 15);
  const before = table.rows.get(id15) ?? table.deleted.get(id15);
  if (typeof change !== 'string') apply({ table, before, after: change });
  else if (before !== undefined) apply({ table, before, after: undefined });
  else table.deleted.set(id15, undefined);
}

/**
 * The records in memory. All work on it is synchronous, so a transaction never sees another one half done.
 * @param commit receives the changes of a finished transaction; when it throws, they are undone.
 */
export function createStore(schema: Schema, commit: (entries: JournalEntry[]) => void): Store {
  const tables = new Map(schema.objects.map((type) => [type.name, createTable(type)]));
  let changes: Change[] | undefined;

  const tableOf = (type: ObjectType): Table => {
    const table = tables.get(type.name);
    if (table === undefined) throw new Error(`no table for ${type.name}`);
    return table;
  };

  const rollback = (savepoint: number): void => {
    const undone = changes?.splice(savepoint) ?? [];
    for (const change of undone.reverse()) undo(change);
  };

  const begin = <T>(work: () => T): T => {
    changes = [];
    try {
      const result = work();
      if (changes.length > 0) commit(changes.map(toEntry));
      return result;
    } catch (error) {
      rollback(0);
      throw error;
    } finally {
      changes = undefined;
    }
  };

  return {
    table: tableOf,
    get: (type, id15) => tableOf(type).rows.get(id15),
    find: (type, field, value) => {
      const index = tableOf(type).indexes.get(field.name);
      if (index === undefined) throw new Error(`${type.name}.${field.name} has no index`);
      return [...(index.rows.get(index.fold(value)) ?? [])];
    },
    write: (type, before, after) => {
      const change = { table: tableOf(type), before, after };
      apply(change);
      changes?.push(change);
    },
    transaction: (work) => (changes === undefined ? begin(work) : work()),
    savepoint: () => changes?.length ?? 0,
    rollback,
    entries: () => allEntries(tables.values()),
    restore: (entry) => restore(tables, entry),
    restructure: ({ objects }) => {
      for (const type of objects) {
        const before = tables.get(type.name);
        tables.set(type.name, createTable(type));
        for (const entry of before === undefined ? [] : entriesOf(before)) restore(tables, entry);
      }
    },
    clear: () => {
      for (const [name, table] of tables) tables.set(name, createTable(table.type));
    },
  };
}
