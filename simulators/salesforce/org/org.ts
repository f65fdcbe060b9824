import { type Journal, openJournal, replayJournal } from '../../shared/journal.ts';
import type { ApiError } from './api-error.ts';
import { type Automation, createAutomation } from './automation.ts';
import type { Built } from './build-org.ts';
import type { OrgDescription } from './description.ts';
import { makeId, sequenceOf, toId15 } from './ids.ts';
import {
  type Field,
  findField,
  hideFields,
  type ObjectType,
  type Row,
  type Schema,
  type Value,
} from './schema.ts';
import { setupRows } from './setup-rows.ts';
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
  description: OrgDescription;
  schema: Schema;
  store: Store;
  /** When the object's metadata last changed, in milliseconds. */
  changedAt(type: ObjectType): number;
  /** Makes the org what another description says; the records stay. */
  become(built: Built): void;
  /** As if these fields (`Quote__c.Actor__c`) had not been deployed. */
  hide(names: readonly string[]): void;
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
  built: Built;
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
  return [...type.all.values()].filter((field) => field.autoNumberFormat !== undefined);
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

/** Not through a transaction: they come from the options and the description, and are not in the journal. */
function addSetupRows(org: Org, counters: Counters): void {
  for (const type of org.schema.objects.filter(({ setup }) => setup)) {
    for (const row of setupRows(org, type)) {
      org.store.write(type, org.store.get(type, toId15(row.Id) ?? ''), row);
      counters.raise(type.name, sequenceOf(row.Id));
    }
  }
}

/** Objects of an org that nobody has changed for long. */
const LONG_AGO = Date.UTC(2026, 0, 5);

/** What of an object counts as its metadata: rights of the user do not, nor does what describe does not show. */
function metadataOf(description: OrgDescription, name: string): string {
  const { fields, label, plural, recordTypes } = description.objects?.[name] ?? {};
  return JSON.stringify(
    { fields, label, plural, recordTypes, currencies: description.currencies },
    (key, value) => (key === 'access' ? undefined : (value as unknown)),
  );
}

/** Remembers when objects changed. */
function createChangeTimes() {
  const times = new Map<string, number>();
  let hidden = '';
  return {
    of: ({ name }: ObjectType) => times.get(name) ?? LONG_AGO,
    described: (before: OrgDescription, after: OrgDescription) => {
      for (const name of Object.keys({ ...before.objects, ...after.objects }))
        if (metadataOf(before, name) !== metadataOf(after, name)) times.set(name, Date.now());
    },
    hidden: (schema: Schema, names: readonly string[]) => {
      if (hidden === names.join()) return;
      hidden = names.join();
      for (const { name } of schema.objects) times.set(name, Date.now());
    },
  };
}

/**
 * An org with one user and the objects of its description; with `dataFile`, the records written to it before.
 * @throws Error when the data file is damaged.
 */
export function createOrg(options: OrgOptions): Org {
  const { built } = options;
  const counters = createCounters();
  let journal: Journal<OrgLine> | undefined;
  const store = createStore(built.schema, (entries) => {
    journal?.append(entries);
    org.onCommit(entries.length);
  });
  const changeTimes = createChangeTimes();
  const org: Org = {
    id: ORG_ID,
    user: { id: USER_ID, username: options.username, name: options.userName },
    description: built.description,
    schema: built.schema,
    store,
    changedAt: changeTimes.of,
    become: ({ description, schema, automation }) => {
      changeTimes.described(org.description, description);
      org.description = description;
      org.schema = schema;
      store.restructure(schema);
      addSetupRows(org, counters);
      org.automation.clear();
      org.automation.add(automation);
    },
    hide: (names) => {
      changeTimes.hidden(org.schema, names);
      hideFields(org.schema, names);
    },
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
      const entries = [...store.entries()].filter(([, change]) => typeof change !== 'string');
      journal?.append(entries.map(([name, change]) => [name, (change as Row).Id]));
      store.clear();
      addSetupRows(org, counters);
    },
    close: () => journal?.close(),
  };
  if (options.dataFile !== undefined) {
    const read = replay(options.dataFile, org, counters);
    const alive = [...store.entries()].length;
    journal = openJournal(options.dataFile, { read, alive, lines: () => linesOf(store, counters) });
  }
  addSetupRows(org, counters);
  org.automation.add(built.automation);
  return org;
}

/** Whether sharing lets the user see this record. */
export function sees({ user }: Org, { ownOnly }: ObjectType, row: Row): boolean {
  return !ownOnly || row.OwnerId === user.id;
}

/** The field of an object that a path or a body names as key: `Id` or an external id. */
export function findKeyField(type: ObjectType, name: string): Field | undefined {
  const field = findField(type, name);
  return field?.externalId || field?.type === 'id' ? field : undefined;
}
