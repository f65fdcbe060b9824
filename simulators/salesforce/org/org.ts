import { type Journal, openJournal, replayJournal } from '../../shared/journal.ts';
import type { ApiError } from './api-error.ts';
import { type Automation, createAutomation } from './automation.ts';
import { makeId, sequenceOf, toId15 } from './ids.ts';
import { type Field, findField, type ObjectType, type Row, type Schema, type Value } from './schema.ts';
import { createStore, type JournalEntry, type Store } from './store.ts';
import type { Language } from './translate.ts';
import { toTimestamp } from './values.ts';

/** The one user of the org: the integration user that the app runs as. */
export interface OrgUser {
  id: string;
  username: string;
  name: string;
}

/** Refuses the write of a record with the error of an armed fault; returns undefined to let it pass. */
export type WriteGuard = (type: ObjectType, row: Row) => ApiError | undefined;

/** A lookup that was emptied because the record that it led to was deleted. */
export interface EmptiedLookup {
  child: ObjectType;
  id: string;
  field: string;
}

export interface Org {
  id: string;
  user: OrgUser;
  schema: Schema;
  store: Store;
  /** The present second in the API's own format; earlier by `lateMs`. */
  now(): string;
  /** What is written now belongs to a transaction that began so long ago, and becomes visible only now. */
  lateMs: number;
  nextId(type: ObjectType): string;
  nextAutoNumber(type: ObjectType, field: Field): string;
  /** Asked before each record is written, so that single records of a batch can be made to fail. */
  guard: WriteGuard;
  /** Triggers, flows and rules that the org's administrators added; they run for calls of the API only. */
  automation: Automation;
  /** The language of error texts. */
  language: Language;
  /** By the id of the deleted record; forgotten when the program ends. */
  emptied: Map<string, EmptiedLookup[]>;
  /** Called with the number of records that a finished transaction wrote or deleted. */
  onCommit: (records: number) => void;
  /** Empties the org; ids go on counting, so that no id is ever given twice. */
  clear(): void;
  close(): void;
}

export interface OrgOptions {
  schema: Schema;
  username: string;
  userName: string;
  dataFile?: string | undefined;
}

const ORG_ID = makeId('00D', 1);
const USER_ID = makeId('005', 1);

interface Counters {
  next(name: string): number;
  /** Makes sure that the next number is above `seen`. */
  raise(name: string, seen: number): void;
  all(): Record<string, number>;
}

function createCounters(): Counters {
  const values = new Map<string, number>();
  const raise = (name: string, seen: number): void => {
    values.set(name, Math.max(values.get(name) ?? 0, seen));
  };
  return {
    next: (name) => {
      const value = (values.get(name) ?? 0) + 1;
      values.set(name, value);
      return value;
    },
    raise,
    all: () => Object.fromEntries(values),
  };
}

function autoNumberFields(type: ObjectType): Field[] {
  return [...type.fields.values()].filter((field) => field.autoNumberFormat !== undefined);
}

/** `Q-{000000}` and 17 make `Q-000017`. */
function formatAutoNumber(format: string, value: number): string {
  return format.replace(/\{(0+)\}/, (_match, zeros: string) => String(value).padStart(zeros.length, '0'));
}

function digitsOf(format: string, value: Value | undefined): number {
  const prefix = format.indexOf('{');
  return Number.parseInt(String(value ?? '').slice(prefix), 10) || 0;
}

function raiseCounters(counters: Counters, type: ObjectType, row: Row): void {
  counters.raise(type.name, sequenceOf(row.Id));
  for (const field of autoNumberFields(type)) {
    const name = `${type.name}.${field.name}`;
    counters.raise(name, digitsOf(field.autoNumberFormat ?? '', row[field.name]));
  }
}

/** A transaction, or the numbers given out so far, at the head of a compacted file. */
type OrgLine = JournalEntry[] | { counters: Record<string, number> };

/** Returns the number of entries read. */
function replay(file: string, org: { schema: Schema; store: Store }, counters: Counters): number {
  let read = 0;
  replayJournal(file, (each) => {
    const line = each as OrgLine;
    if (!Array.isArray(line)) {
      for (const [name, value] of Object.entries(line.counters)) counters.raise(name, value);
      return;
    }
    read += line.length;
    for (const entry of line) {
      const type = org.schema.find(entry[0]);
      if (type !== undefined && typeof entry[1] !== 'string') raiseCounters(counters, type, entry[1]);
      org.store.restore(entry);
    }
  });
  return read;
}

function* linesOf(store: Store, counters: Counters): Iterable<OrgLine> {
  yield { counters: counters.all() };
  for (const entry of store.entries()) yield [entry];
}

function addUser(org: Org): void {
  const type = org.schema.find('User');
  if (type === undefined) return;
  const [first, ...rest] = org.user.name.split(' ');
  const created = '2024-01-01T00:00:00.000+0000';
  const row: Row = {
    Id: org.user.id,
    Username: org.user.username,
    LastName: rest.length === 0 ? org.user.name : rest.join(' '),
    ...(rest.length === 0 || first === undefined ? {} : { FirstName: first }),
    IsActive: true,
    CreatedDate: created,
    LastModifiedDate: created,
    SystemModstamp: created,
    CreatedById: org.user.id,
    LastModifiedById: org.user.id,
  };
  // Not through a transaction: the user comes from the options and has no place in the journal.
  org.store.write(type, org.store.get(type, toId15(row.Id) ?? ''), row);
}

/**
 * An org with one user and the objects of `schema`; with `dataFile`, the records written to it before.
 * @throws Error when the data file is damaged.
 */
export function createOrg(options: OrgOptions): Org {
  const counters = createCounters();
  let journal: Journal<OrgLine> | undefined;
  const store = createStore(options.schema, (entries) => {
    journal?.append(entries);
    org.onCommit(entries.length);
  });
  const org: Org = {
    id: ORG_ID,
    user: { id: USER_ID, username: options.username, name: options.userName },
    schema: options.schema,
    store,
    now: () => toTimestamp(new Date(Date.now() - org.lateMs)),
    lateMs: 0,
    nextId: (type) => makeId(type.keyPrefix, counters.next(type.name)),
    nextAutoNumber: (type, field) =>
      formatAutoNumber(field.autoNumberFormat ?? '', counters.next(`${type.name}.${field.name}`)),
    guard: () => undefined,
    automation: createAutomation(),
    language: 'en',
    emptied: new Map(),
    onCommit: () => undefined,
    clear: () => {
      const entries = [...store.entries()].filter(
        ([name, change]) => name !== 'User' && typeof change !== 'string',
      );
      journal?.append(entries.map(([name, change]) => [name, (change as Row).Id]));
      store.clear();
      addUser(org);
    },
    close: () => journal?.close(),
  };
  if (options.dataFile !== undefined) {
    const read = replay(options.dataFile, org, counters);
    const alive = [...store.entries()].length;
    journal = openJournal(options.dataFile, { read, alive, lines: () => linesOf(store, counters) });
  }
  addUser(org);
  return org;
}

/** The field of an object that a path or a body names as key: `Id` or an external id. */
export function findKeyField(type: ObjectType, name: string): Field | undefined {
  const field = findField(type, name);
  return field?.externalId || field?.type === 'id' ? field : undefined;
}
