import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { randomFrom } from '../../../simulators/shared/random.ts';
import type { Fenced } from '../../../src/features/events/copy-writer.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { type CopiedRow, changedRow, rowOf, staleRow } from '../../../src/features/read-copy/copied-row.ts';
import { CopySync } from '../../../src/features/read-copy/copy-sync.ts';
import { CopyTable } from '../../../src/features/read-copy/copy-table.ts';
import { readCopyMetrics } from '../../../src/features/read-copy/metrics.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { quote } from '../../../src/records/quotes-and-bookings.ts';
import type { FieldValues, StoredRecord } from '../../../src/records/records.ts';
import { openTestDatabase, type TestDatabase } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';
import { MemoryRecords } from './memory-records.ts';
import { keepNow } from './support.ts';

/** `COPY_RUNS=100` is a long run, and `COPY_SEED` another one; the seed decides all. */
const seed = Number(process.env['COPY_SEED'] ?? 1);
const rounds = Number(process.env['COPY_RUNS'] ?? 2);
/** Of one round. */
const steps = 150;
const empty: FieldValues = Object.fromEntries(Object.keys(quote.fields).map((name) => [name, null]));
const created = '2027-03-01T08:00:00.000Z';

let opened: TestDatabase;
before(async () => {
  opened = await openTestDatabase();
});
after(() => opened.stop());

/** A write of the service that has begun, and is not noted. */
interface Held {
  nativeId: string;
  externalId: string;
  since: number;
  written?: StoredRecord | 'gone' | undefined;
  isDone: boolean;
}

/** A record of the CRM. */
interface Row {
  id: string;
  name: string;
  at: string;
  isDeleted: boolean;
}

/** A CRM, the copy of its records, and what happens between them, one step after the other. */
class World {
  readonly #random: () => number;
  readonly #table: CopyTable;
  /** External IDs. */
  readonly ids = Array.from({ length: 4 }, () => randomUUID());
  readonly #rows = new Map<string, Row>();
  /** The names that each id showed, with the change that began it. */
  readonly #states = new Map<string, { name: string | null; from: number }[]>();
  readonly #floors = new Map<string, number>();
  readonly #log: string[] = [];
  #change = 0;
  #second = 0;
  #keptFrom = 0;
  #held: Held[] = [];
  #waiting: { row: CopiedRow; floor: [string, number] | undefined }[] = [];
  #page: CopiedRow[] = [];
  #pollFrom: number | undefined;
  served = 0;

  constructor(random: () => number, table: CopyTable) {
    this.#random = random;
    this.#table = table;
    for (const id of this.ids) this.#states.set(id, [{ name: null, from: 0 }]);
    for (let n = 0; n < 3; n++) this.#set(`N${n}`, { id: this.ids[n] as string, isDeleted: false });
  }

  get #db() {
    return opened.replicas[0];
  }

  #pick<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#random() * all.length)];
  }

  #say(line: string): void {
    this.#log.push(this.ids.reduce((text, id, n) => text.replaceAll(id, `id${n}`), line));
  }

  #set(nativeId: string, change: Partial<Row>): void {
    this.#change += 1;
    if (this.#random() < 0.3) this.#second += 1;
    const at = new Date(Date.parse(created) + this.#second * 1000).toISOString();
    const before = this.#rows.get(nativeId) ?? { id: '', name: '', at, isDeleted: false };
    const row = { ...before, name: `v${this.#change}`, at, ...change };
    this.#rows.set(nativeId, row);
    this.#say(`${this.#change} crm ${nativeId} ${JSON.stringify(row)}`);
    for (const id of this.ids) {
      const states = this.#states.get(id) ?? [];
      const name = this.#holder(id)?.[1].name ?? null;
      if (states.at(-1)?.name !== name) states.push({ name, from: this.#change });
    }
  }

  #holder(id: string): [string, Row] | undefined {
    return [...this.#rows].find(([, row]) => row.id === id && !row.isDeleted);
  }

  #stored([nativeId, { id, name, at }]: [string, Row]): StoredRecord {
    return { nativeId, values: { ...empty, id, name, created_at: created, updated_at: at } };
  }

  #find(id: string): StoredRecord | undefined {
    const found = this.#holder(id);
    return found && this.#stored(found);
  }

  async org(): Promise<void> {
    const [nativeId, row] = this.#pick([...this.#rows]) as [string, Row];
    const kind = this.#random();
    if (kind < 0.2) this.#set(nativeId, {});
    else if (kind < 0.3) this.#set(nativeId, { isDeleted: true });
    else if (row.isDeleted) {
      if (!this.#holder(row.id)) this.#set(nativeId, { isDeleted: false });
    } else {
      const free = this.#pick(this.ids.filter((id) => !this.#holder(id)));
      if (free === undefined) return;
      this.#set(nativeId, { id: free });
      const other = this.#pick(
        [...this.#rows].filter(([name, { isDeleted }]) => name !== nativeId && !isDeleted),
      );
      if (other && this.#random() < 0.7) this.#set(other[0], { id: row.id });
    }
  }

  async begin(): Promise<void> {
    const externalId = this.#pick(this.ids) as string;
    const found = this.#holder(externalId);
    if (found) this.#held.push({ nativeId: found[0], externalId, since: performance.now(), isDone: false });
  }

  async act(): Promise<void> {
    const held = this.#pick(this.#held.filter(({ isDone }) => !isDone));
    if (held === undefined) return;
    held.isDone = true;
    const { nativeId } = held;
    const isThere = this.#rows.get(nativeId)?.isDeleted === false;
    const kind = this.#random();
    if (isThere && kind < 0.8) this.#set(nativeId, {});
    if (isThere && kind < 0.7) held.written = this.#stored([nativeId, this.#rows.get(nativeId) as Row]);
    if (isThere && kind >= 0.8) {
      this.#set(nativeId, { isDeleted: true });
      held.written = 'gone';
    }
  }

  async note(): Promise<void> {
    const held = this.#pick(this.#held.filter(({ isDone }) => isDone));
    if (held === undefined) return;
    this.#held = this.#held.filter((one) => one !== held);
    const { nativeId, externalId, since, written } = held;
    const row = rowOf(quote, { nativeId, externalId }, { written, since });
    let floor: [string, number] | undefined;
    if (written && written !== 'gone') {
      const { id, name } = written.values as { id: string; name: string };
      floor = [id, this.#states.get(id)?.find((state) => state.name === name)?.from ?? 0];
    }
    if (this.#random() < 0.3) this.#waiting.push({ row: staleRow(row), floor });
    else await this.#write([{ row, floor }]);
  }

  async retry(): Promise<void> {
    const one = this.#pick(this.#waiting);
    if (one === undefined) return;
    this.#waiting = this.#waiting.filter((other) => other !== one);
    await this.#write([one]);
  }

  async #write(noted: { row: CopiedRow; floor: [string, number] | undefined }[]): Promise<void> {
    this.#say(
      `note ${JSON.stringify(noted.map(({ row: { nativeId, externalId, isDeleted, isStale, values } }) => [nativeId, externalId, isDeleted, isStale, values['name']]))}`,
    );
    await this.#table.write(noted.map(({ row }) => row));
    for (const { floor } of noted)
      if (floor) this.#floors.set(floor[0], Math.max(floor[1], this.#floors.get(floor[0]) ?? 0));
  }

  async poll(): Promise<void> {
    if (this.#pollFrom === undefined) {
      this.#say('poll begins');
      this.#pollFrom = this.#change;
      await sql`update change_reader set polled_at = clock_timestamp()`.execute(this.#db.sql);
      return;
    }
    if (this.#page.length === 0) {
      this.#page = [...this.#rows]
        .sort(() => this.#random() - 0.5)
        .map(([nativeId, row]) =>
          changedRow({
            ...{ resource: quote, externalId: row.id, isDeleted: row.isDeleted, stamp: row.at },
            ...this.#stored([nativeId, row]),
          }),
        );
      this.#say('page');
      return;
    }
    const rows = this.#page.splice(0, 1 + Math.floor(this.#random() * 3));
    this.#say(
      `keep ${JSON.stringify(rows.map(({ nativeId, externalId, isDeleted, values }) => [nativeId, externalId, isDeleted, values['name']]))}`,
    );
    await this.#db.bulk.transaction().execute((transaction) => this.#table.keep(transaction, rows));
    if (this.#page.length > 0) return;
    await this.#settle();
    await keepNow(this.#db, 'quote');
    this.#keptFrom = this.#pollFrom;
    this.#pollFrom = undefined;
    this.#say('poll ends');
  }

  async #settle(): Promise<void> {
    this.#say('settle');
    const copyWriter = new CopySync({
      ...{ table: this.#table, resources: [quote], source: new MemoryRecords(() => 0) },
      records: {
        find: async (_, id) => {
          if (this.#random() < 0.2) await this.org();
          if (this.#random() < 0.2) await this.act();
          const found = this.#find(id);
          if (this.#random() < 0.1) await this.note();
          return found;
        },
      },
      ...{ log: recordLog().log, metrics: createMetrics(readCopyMetrics) },
    });
    const fenced: Fenced = (work) => this.#db.bulk.transaction().execute(work);
    await copyWriter.work(fenced, [quote], new AbortController().signal);
  }

  async check(): Promise<void> {
    const found = await this.#table.find(this.ids.map((externalId) => ({ resource: 'quote', externalId })));
    for (const [at, id] of this.ids.entries()) {
      const [row, another] = found[at]?.rows ?? [];
      if (another === undefined && !row?.is_stale) this.#assertShown('find', id, row?.content);
    }
    await this.#checkList();
  }

  async #checkList(): Promise<void> {
    const query = { filters: {}, limit: 9, maxBytes: 1e6 };
    const list = await this.#table.list({ resource: 'quote', ...query });
    if (!list || list.hasStale) return;
    const listed = new Map(list.rows.map(({ external_id, content }) => [external_id, content]));
    assert.equal(listed.size, list.rows.length, ['twice', ...this.#log.slice(-40)].join('\n'));
    for (const id of this.ids) this.#assertShown('list', id, listed.get(id));
  }

  #assertShown(what: string, id: string, content: string | undefined): void {
    this.served += 1;
    const name = content === undefined ? null : (JSON.parse(content) as { name: string }).name;
    const states = this.#states.get(id) ?? [];
    const floor = this.#floors.get(id) ?? 0;
    const fits = states.some((state, index) => {
      const end = states[index + 1]?.from ?? Number.POSITIVE_INFINITY;
      return state.name === name && end > this.#keptFrom && end > floor;
    });
    if (fits) return;
    this.#say(
      `${what} of ${id} shows ${name} but ${JSON.stringify({ states: states.slice(-6), kept: this.#keptFrom, floor })}`,
    );
    assert.fail(this.#log.slice(-45).join('\n'));
  }
}

test('whatever moves while notes are late, no read is older than the last poll, nor than a write', async (t) => {
  const [database] = opened.replicas;
  const reader = new ReaderTable(database);
  await reader.prepare();
  await reader.take(true);
  let served = 0;
  for (let round = 0; round < rounds; round++) {
    const random = randomFrom(seed + round);
    const table = new CopyTable(database, 'fields');
    await database.bulk.transaction().execute((transaction) => table.reset(transaction, '1', {}));
    await keepNow(database, 'quote');
    const world = new World(random, table);
    // Everything is read once.
    for (let polls = 0; polls < 5; polls++) await world.poll();
    const kinds = [
      ...['org', 'org', 'begin', 'begin', 'act', 'act', 'note', 'note'],
      ...['retry', 'poll', 'poll', 'poll', 'poll'],
    ] as const;
    for (let step = 0; step < steps; step++) {
      await world[kinds[Math.floor(random() * kinds.length)] ?? 'poll']();
      await world.check().catch((error: Error) => {
        error.message = `seed ${seed + round}, step ${step}: ${error.message}`;
        throw error;
      });
    }
    served += world.served;
  }
  t.diagnostic(`${served} states`);
});
