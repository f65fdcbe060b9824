import { createBatcher } from '../../platform/base/batching.ts';
import { type Call, modeOf, remainingMs } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { FairLimiter } from '../../platform/base/concurrency.ts';
import { dayMs } from '../../platform/base/moment.ts';
import { Problem } from '../../platform/base/problem.ts';
import { isUuid } from '../../platform/base/text.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable, orUnavailable } from '../../platform/store/failures.ts';
import { member, memberValues, unknownMember } from '../../records/members.ts';
import {
  type CreateOptions,
  type FieldValues,
  type Found,
  isFromBefore,
  type ListQuery,
  type RecordKey,
  type RecordList,
  type RecordPage,
  type RecordRef,
  type Records,
  type RecordWrite,
  type StoredRecord,
  WritesRefused,
} from '../../records/records.ts';
import { createRepresentation } from '../../records/representation.ts';
import type { Resource } from '../../records/resource.ts';
import { shownName } from '../../records/shown-fields.ts';
import { addEvents, type EventType, type NewEvent } from '../events/event-log.ts';
import {
  applyTestFault,
  lostAnswer,
  outOfTime,
  sampleId,
  sampleValues,
  worldMember,
  worldMembers,
} from './world-members.ts';
import { allFields, newValues, pickMembers, rowIdOf, toPage, toRecord, toWritten } from './world-record.ts';
import {
  mostBytes,
  mostRecords,
  type Row,
  type WorldKey,
  type WorldResource,
  type WorldsTable,
} from './worlds-table.ts';

type What = 'created' | 'updated' | 'deleted';

/** The event of a write; nobody reads changes of a world, so the write itself reports it. Undefined where nothing has changed. */
function eventOfWrite(
  resource: Resource,
  consumerId: string,
  what: What,
  { after, before }: { after: StoredRecord; before?: StoredRecord },
): NewEvent | undefined {
  const { name, collection, fields } = resource;
  const id = after.values['id'] as string;
  const changed = before && changedFields(resource, before.values, after.values);
  if (changed?.length === 0) return undefined;
  const isDeleted = what === 'deleted';
  return {
    type: `${name}.${what}` as EventType,
    resource: { type: name, id },
    occurredAt: isDeleted ? new Date(wallMs()).toISOString() : (after.values['updated_at'] as string),
    data: isDeleted ? JSON.stringify({ id }) : createRepresentation({ fields })(after.values),
    permission: collection as NewEvent['permission'],
    consumerId,
    ...(changed && { changed }),
  };
}

function changedFields({ fields }: Resource, before: FieldValues, after: FieldValues): string[] {
  const differing = Object.entries(fields).filter(
    ([name]) => name !== 'updated_at' && before[name] !== after[name],
  );
  return [...new Set(differing.map(([name, field]) => shownName(name, field)))];
}

/**
 * Look-ups, lists and writes in flight at once, of each kind: each holds a connection to the database, and live requests
 * need these too.
 */
const statementsAtOnce = 2;
const lookedUpAtOnce = 200;
const mostWaiting = 1000;
/** Milliseconds of a call that are kept for the work itself, once its turn has come. */
const workMs = 2000;

const kept = { keeps: 'keeps the records of test consumers' };

/**
 * Records of test consumers, a world for each, in the gateway's own database. The members are the same in every world, and are
 * not stored.
 */
export class TestRecords implements Records {
  readonly #table: WorldsTable;
  readonly #find: (key: WorldKey) => Promise<Row | undefined>;
  /** Two writes into one world would wait for each other in the database. */
  readonly #writing = new FairLimiter(statementsAtOnce, 1);
  readonly #reading = new FairLimiter(statementsAtOnce, 1);
  /** Requests whose answer was lost: whether they wrote is learned by a repeat alone. */
  readonly #lost = new WeakSet<Call>();
  #noted = { day: 0, consumers: new Set<string>() };

  constructor(table: WorldsTable) {
    this.#table = table;
    this.#find = createBatcher({
      execute: (keys: WorldKey[]) => table.find(keys),
      inFlight: statementsAtOnce,
      batchSize: lookedUpAtOnce,
      // Look-ups of one record may share a batch.
      identity: (key) => key,
      isShared: isUnavailable,
      isHung,
    });
  }

  /** Throws `crm_unavailable` while too many writes of the consumer wait. */
  admit({ consumerId = '' }: Call): void {
    if (this.#writing.waitingOf(consumerId) >= mostWaiting) throw tooMany('writes');
  }

  /** Throws `crm_unavailable` where its turn comes too late. */
  #writeInTurn<T>(call: Call, work: () => Promise<T>): Promise<T> {
    return this.#writing.run(call.consumerId ?? '', work, waitLimit(call, 'writes'));
  }

  /** No record gets a time again that it had before, so nobody needs to wait for the end of a second. */
  now(): number {
    return Number.POSITIVE_INFINITY;
  }

  async create(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    { validUntil, mayExist, madeSince }: CreateOptions = {},
  ): Promise<StoredRecord & Found> {
    const key = { ...worldOf(call, resource), externalId: externalId.toLowerCase() };
    const known = await orUnavailable(() => this.#find(key), kept);
    if (known && !mayBeMadeAgain(toRecord(resource, known), mayExist, madeSince)) {
      const made = recordMade(resource, known, values, call);
      return { ...made, found: mayExist ? 'after loss' : 'there' };
    }
    if (validUntil !== undefined && wallMs() >= validUntil)
      throw new Problem('offer_expired', 'The offer has ended.');
    const fault = await this.#check(key, values, call);
    let isThere = false;
    const made = await this.#write({ ...key, fault, call }, async (transaction) => {
      const { row, isNew } = await this.#insert(transaction, resource, key, newValues(values, call));
      if (row === undefined) throw worldFull();
      isThere = isNew !== true;
      const after = recordMade(resource, row, values, call);
      return { after, event: isNew && eventOfWrite(resource, key.consumerId, 'created', { after }) };
    });
    // Another request was faster.
    return isThere ? { ...made, found: mayExist ? 'after loss' : 'there' } : made;
  }

  createAndRead(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    options?: CreateOptions,
  ): Promise<StoredRecord> {
    return this.create(resource, externalId, values, call, options);
  }

  /** Undefined where the world is full. */
  async #insert(
    transaction: Database['sql'],
    resource: Resource,
    key: WorldKey,
    values: FieldValues,
  ): Promise<{ row?: Row | undefined; isNew?: true }> {
    const { records, bytes } = await this.#table.hold(transaction, key.consumerId);
    const [row] = await this.#table.find([key], transaction);
    // Its caller has seen that a deleted one may be made again.
    if (row?.is_deleted) await this.#table.forget(transaction, row.id);
    else if (row !== undefined || records >= mostRecords) return { row };
    const written = toWritten(resource, { ...values, id: key.externalId });
    if (bytes + Buffer.byteLength(written.content) > mostBytes) return {};
    return { row: await this.#table.insert(transaction, key, written), isNew: true };
  }

  async writeTogether(writes: readonly RecordWrite[], call: Call): Promise<StoredRecord[]> {
    const faults: Fault[] = [];
    for (const [index, write] of writes.entries()) faults.push(await this.#checkOf(write, index, call));
    const work = async (transaction: Database['sql']) => {
      const written: StoredRecord[] = [];
      for (const [index, write] of writes.entries())
        written.push(await this.#writeOne(transaction, write, index, call));
      if (remainingMs(call) === 0) throw outOfTime();
      return written;
    };
    const write = () => this.#table.transaction(work);
    const written = await this.#writeInTurn(call, write).catch((error: unknown) => {
      if (error instanceof Problem || error instanceof WritesRefused) throw error;
      return orUnavailable(() => Promise.reject(error), { ...kept, outcomeUnknown: true });
    });
    const lost = faults.indexOf('lost');
    if (lost < 0) return written;
    this.#lost.add(call);
    throw lostAnswer((writes[lost] as RecordWrite).externalId);
  }

  async #checkOf({ resource, externalId, values, validUntil }: RecordWrite, index: number, call: Call) {
    const refuse = (problem: Problem) => new WritesRefused([{ index, problem, isDuplicate: false }]);
    if (validUntil !== undefined && wallMs() >= validUntil)
      throw refuse(new Problem('offer_expired', 'The offer has ended.'));
    const key = { ...worldOf(call, resource), externalId: externalId.toLowerCase() };
    return this.#check(key, values, call).catch((error: unknown) => {
      throw error instanceof Problem && error.status < 500 ? refuse(error) : error;
    });
  }

  async #writeOne(
    transaction: Database['sql'],
    write: RecordWrite,
    index: number,
    call: Call,
  ): Promise<StoredRecord> {
    const { resource, externalId, values, record } = write;
    const key = { ...worldOf(call, resource), externalId: externalId.toLowerCase() };
    if (record !== undefined) {
      const changed = await this.#change(transaction, resource, { world: key, record, values });
      if (changed === undefined)
        throw new WritesRefused([{ index, problem: worldFull(), isDuplicate: false }]);
      await noteEvent(transaction, changed.event);
      return changed.after;
    }
    const { row, isNew } = await this.#insert(transaction, resource, key, newValues(values, call));
    if (row === undefined || !isNew) {
      const problem = row === undefined ? worldFull() : duplicate();
      throw new WritesRefused([{ index, problem, isDuplicate: row !== undefined }]);
    }
    const after = toRecord(resource, row);
    await noteEvent(transaction, eventOfWrite(resource, key.consumerId, 'created', { after }));
    return after;
  }

  /** Undefined where the world is full. */
  async #change(
    transaction: Database['sql'],
    resource: Resource,
    { world, record, values }: { world: WorldResource; record: RecordRef; values: FieldValues },
  ): Promise<Change | undefined> {
    const { bytes } = await this.#table.hold(transaction, world.consumerId);
    const row = await this.#lock(transaction, world, record);
    const before = toRecord(resource, row);
    const written = toWritten(resource, { ...before.values, ...values });
    const more = Buffer.byteLength(written.content) - Buffer.byteLength(row.content);
    if (more > 0 && bytes + more > mostBytes) return undefined;
    const after = toRecord(resource, await this.#table.update(transaction, row.id, written));
    return { after, event: eventOfWrite(resource, world.consumerId, 'updated', { after, before }) };
  }

  listTogether(lists: readonly RecordList[], call: Call): Promise<RecordPage[]> {
    return Promise.all(lists.map(({ resource, query }) => this.list(resource, query, call)));
  }

  async findTogether(keys: readonly RecordKey[], call: Call): Promise<(StoredRecord | undefined)[]> {
    if (this.#lost.has(call)) throw lostAnswer((keys[0] as RecordKey).externalId);
    return Promise.all(
      keys.map(({ resource, externalId }) => this.findWithDeleted(resource, externalId, call)),
    );
  }

  /** Made when it is asked for, so that the lists of a new world are empty. It is sample data, and has no event. */
  #makeSample(resource: Resource, key: WorldKey, call: Call): Promise<Row | undefined> {
    const values = newValues(sampleValues(resource), { ...call, actor: undefined });
    const make = () =>
      this.#table.transaction((transaction) => this.#insert(transaction, resource, key, values));
    return orUnavailable(async () => (await this.#writeInTurn(call, make)).row, kept);
  }

  async find(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined> {
    const record = await this.findWithDeleted(resource, externalId, call);
    return record?.isDeleted ? undefined : record;
  }

  async findWithDeleted(
    resource: Resource,
    externalId: string,
    call: Call,
  ): Promise<StoredRecord | undefined> {
    if (!isUuid(externalId)) return undefined;
    const key = { ...worldOf(call, resource), externalId: externalId.toLowerCase() };
    this.#noteUse(key.consumerId);
    if (resource.name === member.name) return memberRecord(resource, key.externalId);
    const isSample = key.externalId === sampleId;
    const row =
      (await orUnavailable(() => this.#find(key), kept)) ??
      (isSample ? await this.#makeSample(resource, key, call) : undefined);
    return row && withMemberOf(resource, toRecord(baseOf(resource), row));
  }

  async list(resource: Resource, query: ListQuery, call: Call): Promise<RecordPage> {
    const world = worldOf(call, resource);
    this.#noteUse(world.consumerId);
    if (resource.name === member.name) {
      const found = pickMembers(resource, worldMembers, query);
      return toPage(
        found.map((values) => allFields(resource, values)),
        query,
      );
    }
    if (this.#reading.waitingOf(world.consumerId) >= mostWaiting) throw tooMany('lists');
    const read = () => this.#table.list(world, query);
    const limit = waitLimit(call, 'lists');
    const rows = await orUnavailable(() => this.#reading.run(world.consumerId, read, limit), kept);
    return toPage(
      rows.map((row) => withMemberOf(resource, toRecord(baseOf(resource), row)).values),
      query,
    );
  }

  async update(
    resource: Resource,
    record: RecordRef | StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<void> {
    await this.updateAndRead(resource, record, values, call);
  }

  async updateAndRead(
    resource: Resource,
    ref: RecordRef | StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<StoredRecord> {
    const world = worldOf(call, resource);
    const externalId = 'values' in ref ? (ref.values['id'] ?? '') : '';
    const fault = await this.#check({ ...world, externalId }, values, call);
    return this.#write({ ...world, externalId, fault, call }, async (transaction) => {
      const changed = await this.#change(transaction, resource, { world, record: ref, values });
      if (changed === undefined) throw worldFull();
      return changed;
    });
  }

  async remove(resource: Resource, ref: RecordRef, call: Call): Promise<void> {
    const world = worldOf(call, resource);
    await this.#write({ ...world, call }, async (transaction) => {
      // In the order of creations, which hold the world first.
      await this.#table.hold(transaction, world.consumerId);
      const row = await this.#lock(transaction, world, ref);
      await this.#table.remove(transaction, row.id);
      const after = toRecord(resource, row);
      return { after, event: eventOfWrite(resource, world.consumerId, 'deleted', { after }) };
    });
  }

  /** Throws `not_found` where the record is gone. */
  async #lock(transaction: Database['sql'], world: WorldResource, { nativeId }: RecordRef): Promise<Row> {
    const id = rowIdOf(nativeId);
    const row = id === undefined ? undefined : await this.#table.lock(transaction, world, id);
    if (row === undefined) throw new Problem('not_found', "The record doesn't exist.");
    return row;
  }

  /** Throws the fault that the member stands for, and `member_not_found`. */
  async #check({ consumerId, externalId }: WorldKey, values: FieldValues, call: Call): Promise<Fault> {
    const memberId = values['member_id']?.toLowerCase();
    if (memberId === undefined) return undefined;
    if (worldMember(memberId) === undefined) throw unknownMember('member_id');
    return applyTestFault(memberId, () =>
      orUnavailable(() => this.#writeInTurn(call, () => this.#table.metSince(consumerId, externalId)), kept),
    );
  }

  async #write(
    {
      consumerId,
      externalId = '',
      fault,
      call,
    }: { consumerId: string; externalId?: string; fault?: Fault; call: Call },
    work: (transaction: Database['sql']) => Promise<Change>,
  ): Promise<StoredRecord> {
    const write = () =>
      this.#table.transaction(async (transaction) => {
        const { after, event } = await work(transaction);
        if (remainingMs(call) === 0) throw outOfTime();
        if (fault === 'passed') await this.#table.forgetFault(transaction, consumerId, externalId);
        if (event !== undefined) await addEvents(transaction, [event]);
        return after;
      });
    const written = await this.#writeInTurn(call, write).catch((error: unknown) => {
      if (error instanceof Problem) throw error;
      return orUnavailable(() => Promise.reject(error), { ...kept, outcomeUnknown: true });
    });
    if (fault === 'lost') throw lostAnswer(externalId);
    return written;
  }

  /** Where the database fails, the next day will do. */
  #noteUse(consumerId: string): void {
    const day = Math.floor(wallMs() / dayMs);
    if (this.#noted.day !== day) this.#noted = { day, consumers: new Set() };
    if (this.#noted.consumers.has(consumerId)) return;
    this.#noted.consumers.add(consumerId);
    void this.#table.noteUse(consumerId).catch(() => {});
  }
}

function tooMany(what: 'writes' | 'lists'): Problem {
  return new Problem('crm_unavailable', `Too many ${what} are waiting.`, { retryAfter: 1 });
}

function waitLimit(call: Call, what: 'writes' | 'lists') {
  return { ms: remainingMs(call) - workMs, refusal: () => tooMany(what) };
}

type Fault = Awaited<ReturnType<typeof applyTestFault>>;

interface Change {
  after: StoredRecord;
  event?: NewEvent | undefined;
}

/** The world of the caller. Throws for a live one: none is left to find by mistake. */
function worldOf({ consumerId }: Call, { name }: Resource): WorldResource {
  if (consumerId === undefined || modeOf(consumerId) !== 'test')
    throw new Error('only test consumers have a world');
  return { consumerId, resource: name };
}

function memberRecord(resource: Resource, id: string): StoredRecord | undefined {
  const values = worldMember(id);
  if (values === undefined) return undefined;
  const nativeId = `003${id.replaceAll('-', '').slice(0, 15)}`;
  return { nativeId, values: allFields(resource, values) };
}

/** Where the record is deleted by now, nothing of it is left but what the caller asks for again. */
function recordMade(resource: Resource, row: Row, values: FieldValues, call: Call): StoredRecord {
  const record = toRecord(resource, row);
  if (!record.isDeleted) return record;
  const { id, created_at, updated_at } = record.values as Required<FieldValues>;
  const asked = { ...newValues(values, call), id, created_at, updated_at } as FieldValues;
  return { ...record, values: allFields(resource, asked) };
}

function baseOf(resource: Resource): Resource {
  return resource.included?.base ?? resource;
}

function withMemberOf({ included }: Resource, record: StoredRecord): StoredRecord {
  if (included === undefined) return record;
  const ofMember = memberValues(worldMember(record.values['member_id'] ?? ''));
  return { ...record, values: { ...record.values, ...ofMember } };
}

async function noteEvent(transaction: Database['sql'], event: NewEvent | undefined): Promise<void> {
  if (event !== undefined) await addEvents(transaction, [event]);
}

function mayBeMadeAgain(record: StoredRecord, mayExist: boolean | undefined, madeSince: number | undefined) {
  return mayExist ? isFromBefore(record, madeSince) : record.isDeleted === true;
}

function duplicate(): Problem {
  return new Problem('crm_rejected', 'The CRM refused the record: a record with this id already exists.');
}

function worldFull(): Problem {
  const message =
    `A test consumer has at most ${mostRecords} quotes and bookings, and ${mostBytes / 1024 / 1024} MiB in all. ` +
    'Delete some, or send POST /v1/test/reset.';
  return new Problem('crm_rejected', `The CRM refused the record: ${message}`, {
    errors: [{ pointer: '', message }],
  });
}
