import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Call } from '../../../src/platform/base/call.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import type {
  ChangedPage,
  ChangedRecord,
  ChangePosition,
  ChangeSource,
  IdRange,
  ReadIds,
} from '../../../src/records/changes.ts';
import type {
  FieldValues,
  ListQuery,
  RecordPage,
  RecordRef,
  Records,
  StoredRecord,
} from '../../../src/records/records.ts';
import type { Resource } from '../../../src/records/resource.ts';

import { idsIn } from '../events/memory-crm.ts';

/** Rows of one resource in a page. */
const pageSize = 4;

/** A state of a record: its name, which no other state has, or null where there is none. */
export interface State {
  name: string | null;
  /** When it began, by `performance.now()`. */
  from: number;
}

interface Row extends ChangedRecord {
  states: State[];
}

/**
 * A CRM in memory that takes its time before and after it does what it is asked for, so that answers overtake each other.
 * It remembers every state that a record had.
 */
export class MemoryRecords implements ChangeSource, Records {
  readonly usage = undefined;
  readonly rows = new Map<string, Row>();
  /** Calls that the CRM answered, and no copy. */
  readonly askedBy = new WeakSet<Call>();
  readonly #delay: () => number;
  #count = 0;

  /** `delay` gives milliseconds. */
  constructor(delay: () => number) {
    this.#delay = delay;
  }

  admit(): void {}

  now(): number {
    return Date.now();
  }

  /** Changes a record as somebody else does; undefined deletes it. */
  change(resource: Resource, externalId: string, values: FieldValues | undefined): void {
    const stamp = new Date(Math.floor(Date.now() / 1000) * 1000).toISOString();
    const before = this.rows.get(externalId);
    const name = values === undefined ? null : `${values['name'] ?? 'n'} ${++this.#count}`;
    const base = before ?? { nativeId: `id ${randomUUID()}`, values: { created_at: stamp }, states: [] };
    const now = { ...empty(resource), ...base.values, ...values, id: externalId, name, updated_at: stamp };
    this.rows.set(externalId, {
      ...{ resource, externalId, stamp, nativeId: base.nativeId, isDeleted: values === undefined },
      values: now,
      states: [...base.states, { name, from: performance.now() }],
    });
  }

  /** Two records swap their External IDs, which for a moment no record has. */
  swap(ids: readonly [string, string]): void {
    const stamp = new Date(Math.floor(Date.now() / 1000) * 1000).toISOString();
    const [one, two] = ids.map((id) => this.rows.get(id));
    if (one === undefined || two === undefined) return;
    for (const [id, { states }, row] of [[ids[0], one, two] as const, [ids[1], two, one] as const]) {
      const name = `n ${++this.#count}`;
      const from = performance.now();
      this.rows.set(id, {
        ...{ ...row, stamp, externalId: id, values: { ...row.values, id, name, updated_at: stamp } },
        states: [...states, { name: null, from }, { name: row.isDeleted ? null : name, from }],
      });
    }
  }

  async readIds(ranges: readonly IdRange[], limit: number): Promise<ReadIds[]> {
    return ranges.map((range) => idsIn([...this.rows.values()], range, limit));
  }

  async readChanges(positions: ReadonlyMap<Resource, ChangePosition>): Promise<ChangedPage> {
    const sentAt = Date.now();
    await this.#pass();
    const complete = new Set<Resource>();
    const records: ChangedRecord[] = [];
    for (const [resource, position] of positions) {
      const behind = [...this.rows.values()]
        .filter((row) => row.resource === resource && isBehind(row, position))
        .sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
      records.push(...behind.slice(0, pageSize).map(({ states: _states, ...record }) => record));
      if (behind.length < pageSize) complete.add(resource);
    }
    for (let waits = 0; waits < 4; waits++) await this.#pass();
    return { records, complete, sentAt };
  }

  async findWithDeleted(_resource: Resource, externalId: string): Promise<StoredRecord | undefined> {
    await this.#pass();
    return this.rows.get(externalId);
  }

  listTogether(): never {
    throw new Error('not used');
  }

  findTogether(): never {
    throw new Error('not used');
  }

  writeTogether(): never {
    throw new Error('not used');
  }

  async find(_resource: Resource, externalId: string, call?: Call): Promise<StoredRecord | undefined> {
    if (call) this.askedBy.add(call);
    await this.#pass();
    const found = this.#get(externalId);
    await this.#pass();
    return found;
  }

  async list(resource: Resource, { limit, represent }: ListQuery, call?: Call): Promise<RecordPage> {
    if (call) this.askedBy.add(call);
    await this.#pass();
    const records = [...this.rows.values()]
      .filter((row) => row.resource === resource && !row.isDeleted)
      .map(({ values }) => ({
        id: values['id'] ?? '',
        at: values['created_at'] ?? '',
        json: represent(values),
      }))
      .sort((a, b) => (`${a.at} ${a.id}` < `${b.at} ${b.id}` ? 1 : -1))
      .map((row) => ({ ...row, json: Buffer.from(row.json) }));
    return { records: records.slice(0, limit), hasMore: records.length > limit };
  }

  async create(resource: Resource, externalId: string, values: FieldValues): Promise<StoredRecord> {
    return (await this.createAndRead(resource, externalId, values)) as StoredRecord;
  }

  createAndRead(
    resource: Resource,
    externalId: string,
    values: FieldValues,
  ): Promise<StoredRecord | undefined> {
    return this.#write(() => {
      this.change(resource, externalId, values);
      return this.#get(externalId);
    });
  }

  async update(resource: Resource, ref: RecordRef, values: FieldValues): Promise<void> {
    await this.updateAndRead(resource, ref, values);
  }

  updateAndRead(
    resource: Resource,
    { nativeId }: RecordRef,
    values: FieldValues,
  ): Promise<StoredRecord | undefined> {
    return this.#write(() => {
      const row = [...this.rows.values()].find((one) => one.nativeId === nativeId && !one.isDeleted);
      if (row?.externalId === undefined) throw new Problem('not_found', 'It is gone.');
      this.change(resource, row.externalId, { ...row.values, ...values });
      return this.#get(row.externalId);
    });
  }

  async remove(resource: Resource, { nativeId }: RecordRef): Promise<void> {
    await this.#write(() => {
      const row = [...this.rows.values()].find((one) => one.nativeId === nativeId && !one.isDeleted);
      if (row?.externalId === undefined) throw new Problem('not_found', 'It is gone.');
      this.change(resource, row.externalId, undefined);
      return undefined;
    });
  }

  /** Of ten writes one is not answered; of those every other one is done. */
  async #write<T>(work: () => T): Promise<T> {
    await this.#pass();
    const lost = this.#delay() % 1;
    if (lost < 0.05) throw new Problem('crm_timeout', 'No answer.', { outcomeUnknown: true });
    const result = work();
    await this.#pass();
    if (lost < 0.1) throw new Problem('crm_timeout', 'No answer.', { outcomeUnknown: true });
    return result;
  }

  #get(externalId: string): StoredRecord | undefined {
    const row = this.rows.get(externalId);
    return row === undefined || row.isDeleted ? undefined : { nativeId: row.nativeId, values: row.values };
  }

  async #pass(): Promise<void> {
    await sleep(Math.floor(this.#delay()));
  }
}

function empty({ fields }: Resource): FieldValues {
  return Object.fromEntries(Object.keys(fields).map((name) => [name, null]));
}

function orderOf({ stamp, nativeId }: ChangedRecord): string {
  return `${stamp} ${nativeId}`;
}

function isBehind(row: ChangedRecord, { stamp, nativeId }: ChangePosition): boolean {
  return nativeId === undefined ? row.stamp >= stamp : orderOf(row) > `${stamp} ${nativeId}`;
}
