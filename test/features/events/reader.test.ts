import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventFeed, type StoredEvent } from '../../../src/features/events/event-feed.ts';
import { addEvents } from '../../../src/features/events/event-log.ts';
import { eventMetrics } from '../../../src/features/events/metrics.ts';
import { MissingRecords } from '../../../src/features/events/missing-records.ts';
import { MissingTable } from '../../../src/features/events/missing-table.ts';
import { ChangeReader } from '../../../src/features/events/reader.ts';
import { ReaderTable } from '../../../src/features/events/reader-table.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { member } from '../../../src/records/members.ts';
import { booking, quote } from '../../../src/records/quotes-and-bookings.ts';
import { createRepresentation } from '../../../src/records/representation.ts';
import { databaseKinds } from '../../support/databases.ts';
import { recordLog } from '../../support/log.ts';
import { MemoryCrm } from './memory-crm.ts';

const resources = [member, quote, booking];
const metrics = createMetrics(eventMetrics);

/** Repeats the same numbers from 0 to 1 for a seed. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

function newReader(database: Database, source: MemoryCrm): ChangeReader {
  const log = recordLog().log;
  const missing = new MissingRecords({
    ...{ table: new MissingTable(database), source, resources, log },
    records: { find: (resource, id) => source.find(resource, id), now: () => source.now },
  });
  return new ChangeReader({
    missing,
    ...{ table: new ReaderTable(database), source, resources, metrics, log },
    ...{ pollSeconds: 0.001, minimumSeconds: 0.001, wake: () => {}, memberChanged: async () => {} },
  });
}

/** A poll is due, and a dead owner's lease is over. */
const makeDue = (database: Database) =>
  database.execute(
    `update change_reader set lease_until = to_timestamp(0), due_at = to_timestamp(0), not_before = to_timestamp(0)`,
  );

async function poll(database: Database, reader: ChangeReader): Promise<void> {
  await makeDue(database);
  await reader.check(new AbortController().signal);
}

async function readAll(database: Database): Promise<StoredEvent[]> {
  const feed = new EventFeed(database);
  const all: StoredEvent[] = [];
  for (let after = 0; ; ) {
    const page = await feed.read({ after, limit: 100, maxBytes: 2 ** 22 });
    assert.ok(page);
    all.push(...page.events.slice(0, 100));
    if (page.events.length <= 100) return all;
    after = all.at(-1)?.sequence ?? 0;
  }
}

/** What a consumer knows that has read all events. Fails where one makes no sense after those before. */
function replay(events: readonly StoredEvent[]): Map<string, string> {
  const known = new Map<string, string>();
  for (const { type, resource_id: id, data } of events) {
    const what = type.split('.')[1];
    if (what === 'deleted') known.delete(id);
    else {
      assert.equal(known.has(id), what === 'updated', `${type} of ${id}`);
      assert.notEqual(known.get(id), data, `${type} of ${id} has nothing new`);
      known.set(id, data);
    }
  }
  return known;
}

/** Makes, changes, deletes or restores a record; some of it becomes visible late. */
function writeSomething(
  crm: MemoryCrm,
  ids: readonly string[],
  random: () => number,
  lateMs: number,
  name: string,
): void {
  const index = Math.floor(random() * ids.length);
  const [id = '', resource = quote] = [ids[index], resources[index % 3]];
  const row = crm.rows.find(({ nativeId }) => nativeId === id);
  const late = random() < 0.4 ? random() * lateMs : 0;
  if (row === undefined) crm.write(resource, id, {}, late);
  else if (random() < 0.25 && !(row.isDeleted && crm.isTaken(row)))
    crm.write(resource, id, { isDeleted: !row.isDeleted }, late);
  else crm.write(resource, id, { values: { ...row.values, name } }, late);
}

/** Hides a record, or shows all again; whether this one is hidden. */
function hideSomething(crm: MemoryCrm, nativeId: string, random: () => number, lateMs: number): boolean {
  // A look-up that is ahead of the polls by minutes may report a deletion too early; the next ones correct it.
  if (lateMs < 120_000 && random() < 0.2) crm.hide(nativeId);
  if (random() < 0.2) crm.hidden.clear();
  return crm.hidden.has(nativeId);
}

/** The org lacks an object for some polls. */
function breakSomething(crm: MemoryCrm, random: () => number, lateMs: number): void {
  // Where a poll that looks far back leaves it out, what became visible late waits for ten more.
  if (lateMs > 120_000 || random() >= 0.3) return;
  crm.breakObject([undefined, ...resources][Math.floor(random() * 4)]);
}

/** A comparison of all ids is due now. */
const makeComparisonDue = (database: Database, isDue = true) =>
  database.execute(`update change_reader set compared_at = to_timestamp(0) where ${isDue}`);

/**
 * An External ID goes to another record: both are swapped, or merged. Or a record is removed without a trace, or is
 * hidden for a while.
 */
async function moveSomething(
  { crm, missing }: { crm: MemoryCrm; missing: MissingTable },
  random: () => number,
  lateMs: number,
): Promise<void> {
  const resource = resources[Math.floor(random() * 3)] ?? quote;
  const rows = crm.rows.filter(
    (row) => row.resource === resource && !row.isDeleted && crm.isSettled(row.nativeId),
  );
  const pick = () => rows.splice(Math.floor(random() * rows.length), 1)[0];
  const [from, to, chance] = [pick(), pick(), random()];
  if (from === undefined || to === undefined) return;
  if (hideSomething(crm, from.nativeId, random, lateMs)) return;
  const late = random() < 0.4 ? random() * lateMs : 0;
  if (chance < 0.8) crm.move(from, to, chance < 0.4 ? 'swap' : 'merge', late);
  else {
    crm.erase(from.nativeId);
    // A request may be answered 404.
    if (chance < 0.9)
      await missing.note([{ resource: resource.name, externalId: from.externalId ?? '', madeBy: null }]);
  }
}

/** Sometimes the CRM fails, and sometimes the reader is stopped in the middle while another one takes over. */
function somethingElse(random: () => number, takeOver: () => Promise<void>): () => Promise<void> {
  return async () => {
    const chance = random();
    if (chance < 0.1) throw new Error('the CRM is unavailable');
    if (chance < 0.2) await takeOver();
  };
}

/** Records that were there before the first start are left out: no event mentioned them. */
function assertLeadsTo(crm: MemoryCrm, events: readonly StoredEvent[], before: readonly string[]): void {
  const known = replay(events.filter(({ resource_id }) => !before.includes(resource_id)));
  const alive = crm.rows.filter(
    ({ isDeleted, externalId = '' }) => !isDeleted && !before.includes(externalId),
  );
  assert.deepEqual([...known.keys()].toSorted(), alive.map(({ externalId }) => externalId).toSorted());
  for (const { externalId = '', resource, values } of alive)
    assert.equal(known.get(externalId), createRepresentation({ fields: resource.fields })(values));
}

/** Records from before the first start: without an event, and known all the same. Returns their External IDs. */
function fillBefore(crm: MemoryCrm, ids: readonly string[]): string[] {
  for (const [index, id] of ids.entries()) crm.write(resources[index % 3] ?? quote, id, {});
  return crm.rows.map(({ externalId = '' }) => externalId);
}

/** An id that only went from one record to another was never gone. */
function assertNoneMerelyMoved({ absent }: MemoryCrm, events: readonly StoredEvent[]): void {
  for (const { type, resource_id } of events)
    if (type.endsWith('.deleted')) assert.ok(absent.has(resource_id), `${type} of ${resource_id}`);
}

for (const [kind, open] of Object.entries(databaseKinds)) {
  for (const [what, lateMs, polls] of [
    ['two minutes', 115_000, 1],
    ['fifteen minutes', 880_000, 10],
  ] as const) {
    test(`${kind}: whatever fails, the feed leads to the final state; changes up to ${what} late`, async (t) => {
      const opened = await open(2);
      if (!opened) return t.skip('there is no PostgreSQL');
      t.after(opened.stop);
      const [database, other = database] = opened.replicas;
      await new ReaderTable(database).prepare();
      const crm = new MemoryCrm();
      t.after(() => crm.breakObject());
      const random = randomFrom(lateMs);
      const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T;
      const ids = Array.from({ length: 25 }, (_, index) => `a0B00000000${String(index).padStart(4, '0')}`);
      const before = fillBefore(crm, ids.slice(0, 8));
      crm.pass(3_600_000);
      let readers = [newReader(database, crm), newReader(other, crm)];
      await poll(database, readers[0] as ChangeReader);
      assert.deepEqual(await readAll(database), []);

      // The embedded database is slow, and shares all of this.
      const steps = kind === 'PGlite' ? 25 : 60;
      for (let step = 0; step < steps; step++) {
        for (let count = 0; count < 3; count++)
          writeSomething(crm, ids, random, lateMs, `step ${step}.${count}`);
        if (random() < 0.5) await moveSomething({ crm, missing: new MissingTable(database) }, random, lateMs);
        crm.pass(pick([0, 900, 20_000, 40_000]));
        crm.beforeAnswer = somethingElse(random, async () => {
          crm.beforeAnswer = async () => {};
          await poll(other, readers[1] as ChangeReader);
        });
        await makeComparisonDue(database, step % 5 === 4 && polls === 1);
        breakSomething(crm, random, lateMs);
        await poll(database, readers[0] as ChangeReader);
        if (random() < 0.1) readers = [newReader(database, crm), newReader(other, crm)];
      }
      crm.beforeAnswer = async () => {};
      crm.breakObject();
      crm.hidden.clear();
      crm.pass(lateMs);
      for (let count = 0; count < polls; count++) {
        await poll(database, readers[0] as ChangeReader);
        crm.pass(60_000);
      }
      await makeComparisonDue(database);
      await poll(database, readers[0] as ChangeReader);
      const events = await readAll(database);
      assert.ok(events.length > steps / 2);
      assertNoneMerelyMoved(crm, events);
      assertLeadsTo(crm, events, before);
      // Nothing comes again.
      await poll(database, readers[0] as ChangeReader);
      assert.equal((await readAll(database)).length, events.length);
    });
  }

  test(`${kind}: more records with one stamp than a page holds`, async (t) => {
    const opened = await open();
    if (!opened) return t.skip('there is no PostgreSQL');
    t.after(opened.stop);
    const [database] = opened.replicas;
    await new ReaderTable(database).prepare();
    const crm = new MemoryCrm();
    const reader = newReader(database, crm);
    await poll(database, reader);
    const calls = crm.calls;
    crm.pass(1000);
    for (let index = 0; index < 10; index++) crm.write(quote, `a0B0000000000${10 + index}`, {});
    await poll(database, reader);
    assert.equal((await readAll(database)).length, 10);
    assert.equal(crm.calls - calls, 4);
    // A quiet CRM is read with one call, once what changed last is two minutes and a little old.
    crm.pass(200_000);
    await poll(database, reader);
    const quiet = crm.calls;
    await poll(database, reader);
    assert.equal(crm.calls - quiet, 1);
  });
}

test('PostgreSQL: a cursor misses nothing, however many add events at once', async (t) => {
  const opened = await databaseKinds['PostgreSQL']?.(3);
  if (!opened) return t.skip('there is no PostgreSQL');
  t.after(opened.stop);
  const [reading, ...writing] = opened.replicas;
  const each = 60;
  let writers = writing.length * 2;
  const write = async (database: Database, name: number) => {
    for (let index = 0; index < each; index++) {
      const event = { type: 'quote.created', resource: { type: 'quote', id: `${name} ${index}` } } as const;
      await database.sql.transaction().execute(async (transaction) => {
        await addEvents(transaction, [
          { ...event, occurredAt: '2027-01-01T00:00:00.000Z', data: '{}', permission: 'quotes' },
        ]);
      });
    }
    writers -= 1;
  };
  const read = async () => {
    const found: string[] = [];
    for (let after = 0, isLast = false; ; ) {
      const page = await new EventFeed(reading).read({ after, limit: 7, maxBytes: 2 ** 22 });
      assert.ok(page);
      const shown = page.events.slice(0, 7);
      found.push(...shown.map(({ resource_id }) => resource_id));
      if (page.events.length <= 7) {
        if (isLast) return found;
        isLast = writers === 0;
      }
      after = page.events.length > 7 ? (shown.at(-1)?.sequence ?? 0) : page.searchedTo;
    }
  };
  const [found] = await Promise.all([
    read(),
    ...[...writing, ...writing].map((database, name) => write(database, name)),
  ]);
  assert.equal(found.length, each * writing.length * 2);
  assert.equal(new Set(found).size, found.length);
});
