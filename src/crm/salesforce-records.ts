import { createHash } from 'node:crypto';
import { type Call, remainingMs, requireLive } from '../platform/base/call.ts';
import { monotonicMs } from '../platform/base/chance.ts';
import { Problem, withSecondLook } from '../platform/base/problem.ts';
import { isUuid } from '../platform/base/text.ts';
import { inTime } from '../platform/base/waiting.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import { creatorOf } from '../records/created-by.ts';
import { resourceKey } from '../records/members.ts';
import {
  type CreateOptions,
  type FieldValues,
  type Found,
  isFromBefore,
  type ListQuery,
  type ReadBack,
  type RecordKey,
  type RecordList,
  type RecordPage,
  type RecordRef,
  type Records,
  type RecordWrite,
  type StoredRecord,
  WritesRefused,
} from '../records/records.ts';
import type { Resource } from '../records/resource.ts';
import { nativeIdOf } from './batching/composite.ts';
import { Find, isDeleted, type Lookup } from './batching/find.ts';
import type { Operation } from './batching/operation.ts';
import {
  Change,
  Create,
  type Created,
  type Creation,
  Delete,
  type Deletion,
  type Update,
  type Updated,
} from './batching/write.ts';
import { CrmFailure, type FailureKind, queueFull } from './failure.ts';
import { listRecords } from './list-records.ts';
import { type CrmRow, createLinkReader, createRowReader, readKey, withoutHidden } from './mapping/records.ts';
import { explainByOrg, type Refused } from './org-refusals.ts';
import { Owners } from './owners.ts';
import { findTogether, listTogether } from './read-together.ts';
import { crmProblem, refusalForLog } from './rest/problems.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { ObjectSize, type RequestKind } from './scheduling/request-kind.ts';
import type { Scheduler } from './scheduling/scheduler.ts';
import type { UsableColumns } from './usable-columns.ts';
import { addTransactions, type TogetherOptions, writeTogether } from './write-together.ts';

export type OnMissing = (resource: Resource, externalId: string, call: Call, since: number) => Promise<void>;

interface SalesforceRecordsOptions {
  client: CrmClient;
  scheduler: Scheduler;
  ownerVerifiedOnly: boolean;
  log: Log;
  metrics: Metrics;
  columnsOf: (resource: Resource) => UsableColumns;
  onWrite: () => void;
  onMissing: OnMissing;
}

/** Undefined for a row that the API does not have. */
type ReadRecord = (row: CrmRow) => StoredRecord | undefined;

interface Kinds {
  columns: UsableColumns;
  toRecordOf: (used: Resource) => ReadRecord;
  finds: RequestKind<Lookup, StoredRecord | undefined>;
  findsWithDeleted: RequestKind<Lookup, StoredRecord | undefined>;
  creates: RequestKind<Creation, Created>;
  updates: RequestKind<Update, Updated>;
  deletes: RequestKind<Deletion, undefined>;
}

export function createSalesforceRecords(options: SalesforceRecordsOptions): Records {
  return new SalesforceRecords(options);
}

class SalesforceRecords implements Records {
  readonly #options: SalesforceRecordsOptions;
  readonly #kinds = new Map<string, Kinds>();
  readonly #order = new RecordOrder();
  readonly #owners: Owners;
  readonly #together: TogetherOptions;

  constructor(options: SalesforceRecordsOptions) {
    this.#options = options;
    this.#owners = new Owners(options);
    this.#together = {
      ...options,
      owners: this.#owners,
      transactions: addTransactions(options.scheduler, options.client),
      toRecordOf: (resource, used) => this.#kindsOf(resource).toRecordOf(used),
    };
  }

  admit(call: Call): void {
    requireLive(call);
    try {
      this.#options.client.permits.check(call);
    } catch (error) {
      throw asProblem(error, undefined);
    }
  }

  now(): number {
    return this.#options.client.time.now();
  }

  async createAndRead(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    options?: CreateOptions,
  ): Promise<StoredRecord | undefined> {
    const created = await this.create(resource, externalId, values, call, { ...options, readBack: true });
    if ('values' in created) return created;
    // A record that is not found tells nothing of a deletion: sharing may hide it.
    const found = await this.findWithDeleted(resource, externalId, call).catch(rethrowAsUnknown);
    if (found === undefined)
      this.#options.log.warn(
        { request_id: call.requestId, object: resource.crmObject },
        "the integration user can't read a record it has created; give it View All Records, see handoff org check",
      );
    return found;
  }

  async create(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    { readBack = false, mayExist, validUntil, madeSince, ofService }: CreateOptions & ReadBack = {},
  ): Promise<(RecordRef | StoredRecord) & Found> {
    requireLive(call);
    const key = externalId.toLowerCase();
    const lookUp = async () => {
      const found = await this.findWithDeleted(resource, key, call).catch(rethrowAsUnknown);
      return found && !isFromBefore(found, madeSince) ? found : undefined;
    };
    const made = mayExist ? await lookUp() : undefined;
    if (made !== undefined) return { ...made, found: 'after loss' };
    const creation: Creation = {
      externalId: key,
      values: { ...creatorOf(resource, call), ...values },
      readBack,
      validUntil,
      madeSince,
      visible: call.visible(resource.collection),
    };
    try {
      return await this.#make(resource, creation, call);
    } catch (error) {
      // An earlier try came through after all, or another unique field has the value already: look which.
      const found = isDuplicate(error) ? await lookUp() : undefined;
      if (found !== undefined) return { ...found, found: 'there' };
      const written = Object.keys(creation.values);
      throw await this.#refused(error, { resource, need: 'create', written, ofService, call });
    } finally {
      this.#options.onWrite();
    }
  }

  async #make(resource: Resource, creation: Creation, call: Call): Promise<RecordRef & Found> {
    const { creates } = this.#kindsOf(resource);
    const owner = await this.#owners.choose(resource, call);
    for (;;) {
      try {
        const { ownerId } = owner;
        const { record, ...created } = await this.#submit(creates, { ...creation, ownerId }, call);
        owner.accept();
        return { ...created, ...record };
      } catch (error) {
        if (!owner.reject(error)) throw error;
      }
    }
  }

  async writeTogether(
    writes: readonly RecordWrite[],
    call: Call,
    options?: ReadBack,
  ): Promise<(RecordRef | StoredRecord)[]> {
    requireLive(call);
    try {
      return await writeTogether(this.#together, writes, call, options);
    } catch (error) {
      if (error instanceof WritesRefused)
        for (const { index, problem } of error.refusals)
          this.#note(problem, (writes[index] as RecordWrite).resource, call);
      throw asProblem(error, undefined);
    } finally {
      this.#options.onWrite();
    }
  }

  async findTogether(keys: readonly RecordKey[], call: Call): Promise<(StoredRecord | undefined)[]> {
    requireLive(call);
    return findTogether(this.#together, keys, call).catch(rethrowAsProblem);
  }

  async listTogether(lists: readonly RecordList[], call: Call): Promise<RecordPage[]> {
    requireLive(call);
    return listTogether(this.#together, lists, call).catch(rethrowAsProblem);
  }

  find(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined> {
    return this.#find('finds', resource, externalId, call);
  }

  findWithDeleted(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined> {
    return this.#find('findsWithDeleted', resource, externalId, call);
  }

  async #find(
    by: 'finds' | 'findsWithDeleted',
    resource: Resource,
    externalId: string,
    call: Call,
  ): Promise<StoredRecord | undefined> {
    requireLive(call);
    if (!isUuid(externalId)) return undefined;
    try {
      const since = monotonicMs();
      const lookup = { key: externalId.toLowerCase(), visible: call.visible(resource.collection) };
      const found = await this.#options.scheduler.submit(this.#kindsOf(resource)[by], lookup, call);
      if (found === undefined && by === 'finds') await this.#noteMissing(resource, lookup.key, call, since);
      return found;
    } catch (error) {
      throw await asProblemOfOrg(error, { resource, need: 'read', written: [], call });
    }
  }

  async list(resource: Resource, query: ListQuery, call: Call): Promise<RecordPage> {
    requireLive(call);
    const { toRecordOf, columns } = this.#kindsOf(resource);
    try {
      const options = { ...this.#options, resource, columns, toRecordOf };
      return await listRecords(options, query, call);
    } catch (error) {
      throw await asProblemOfOrg(error, { resource, need: 'read', written: [], call });
    }
  }

  async update(
    resource: Resource,
    ref: RecordRef | StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<void> {
    await this.#update(resource, { ref, values, readBack: false }, call);
  }

  async updateAndRead(
    resource: Resource,
    ref: StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<StoredRecord | undefined> {
    const { record } = await this.#update(resource, { ref, values, readBack: true }, call);
    return record ?? this.find(resource, ref.values['id'] ?? '', call).catch(rethrowAsUnknown);
  }

  #update(resource: Resource, update: Update, call: Call): Promise<Updated> {
    const { updates } = this.#kindsOf(resource);
    const written = Object.keys(update.values);
    return this.#change(updates, update, { resource, need: 'write', written, call });
  }

  async remove(resource: Resource, ref: RecordRef, call: Call): Promise<void> {
    const { deletes } = this.#kindsOf(resource);
    await this.#change(deletes, { ref }, { resource, need: 'delete', written: [], call });
  }

  async #change<Item extends { ref: RecordRef | StoredRecord }, T>(
    kind: RequestKind<Item, T>,
    item: Item,
    work: Refused,
  ): Promise<T> {
    const { resource, call } = work;
    const { ref } = item;
    requireLive(call);
    const since = monotonicMs();
    try {
      return await this.#order.run(ref.nativeId, call, () => this.#submit(kind, item, call));
    } catch (error) {
      const problem = await this.#refused(error, work);
      const isGone = problem instanceof Problem && problem.code === 'not_found';
      const externalId = 'values' in ref ? ref.values['id'] : undefined;
      // The record may have been deleted since it was read.
      if (isGone && externalId) await this.#noteMissing(resource, externalId, call, since);
      throw problem;
    } finally {
      this.#options.onWrite();
    }
  }

  #submit<Item, Result>(kind: RequestKind<Item, Result>, item: Item, call: Call): Promise<Result> {
    return withSecondLook(call, async () => {
      try {
        return await this.#options.scheduler.submit(kind, item, call);
      } catch (error) {
        throw (error instanceof CrmFailure && error.facts.problem) || error;
      }
    });
  }

  async #refused(error: unknown, refused: Refused): Promise<unknown> {
    const problem = await asProblemOfOrg(error, refused);
    this.#note(problem, refused.resource, refused.call);
    return problem;
  }

  #note(problem: unknown, { crmObject: object }: Resource, { requestId: request_id }: Call): void {
    if (!(problem instanceof Problem) || !(problem.cause instanceof CrmFailure)) return;
    const { cause, facts, message } = problem;
    if (!recordRefusals.includes(cause.kind)) return;
    const errors = refusalForLog(cause);
    for (const { code } of errors.slice(0, 1)) this.#options.metrics.crmRejected.inc({ object, code });
    this.#options.log.info(
      { request_id, object, errors, ...(facts.isOfOrg && { misfit: message }) },
      'Salesforce refused a record',
    );
  }

  /** Not for background work, which handles missing records itself. */
  async #noteMissing(resource: Resource, externalId: string, call: Call, since: number): Promise<void> {
    if (call.background === undefined) await this.#options.onMissing(resource, externalId, call, since);
  }

  #kindsOf(resource: Resource): Kinds {
    const key = resourceKey(resource);
    let kinds = this.#kinds.get(key);
    if (kinds === undefined) {
      kinds = createKinds(resource, this.#options);
      this.#kinds.set(key, kinds);
    }
    return kinds;
  }
}

function createKinds(resource: Resource, options: SalesforceRecordsOptions): Kinds {
  const toRecord = createRecordReader(resource, options.metrics);
  const columns = options.columnsOf(resource);
  const toRecordOf = (used: Resource): ReadRecord => {
    const shown = withoutHidden(resource, used);
    return (row) => shown(toRecord(row));
  };
  // Replicas of another version may know other fields.
  const fields = createHash('sha256')
    .update(JSON.stringify(columnsIn(resource)))
    .digest('base64url');
  const over = { client: options.client, columns, toRecordOf };
  const objectSize = new ObjectSize();
  options.metrics.crmBatchSplits.inc({ object: resource.crmObject }, 0);
  const kind = <Item, Result>(operation: Operation<Item, Result>, what: string = operation.name) => {
    const name = `${resourceKey(resource)} ${what}`;
    const { crmObject: object } = resource;
    const rows = rowsOf(resource, what);
    return options.scheduler.addKind({
      ...{ operation, name, object, objectSize, rows },
      batchKey: `${name} ${fields}`,
    });
  };
  return {
    columns,
    toRecordOf,
    finds: kind(new Find(over)),
    findsWithDeleted: kind(new Find({ ...over, withDeleted: true }), 'find with deleted'),
    creates: kind(new Create(over)),
    updates: kind(new Change(over)),
    deletes: kind(new Delete(over)),
  };
}

function rowsOf(resource: Resource, kind: string): string | undefined {
  if (kind === 'delete') return undefined;
  const key = resourceKey(resource);
  return kind === 'find with deleted' ? `${key} with deleted` : key;
}

function columnsIn({ crmObject, fields }: Resource): unknown {
  return [
    crmObject,
    Object.entries(fields).map(([name, { kind, crm, added }]) => [name, added ? 'added' : kind, crm]),
  ];
}

/** The reader answers undefined for a record that the API does not have: one without a UUID as External ID. */
function createRecordReader(resource: Resource, metrics: Metrics): ReadRecord {
  const readRow = createRowReader(resource, metrics);
  const readLinks = createLinkReader(resource);
  return (row) => {
    if (!isUuid(readKey(resource, row))) return undefined;
    const nativeId = nativeIdOf(row['Id'], { effect: 'read' });
    const record = { nativeId, values: readRow(row), links: readLinks(row) };
    return isDeleted(row) ? { ...record, isDeleted: true } : record;
  };
}

/** The record can't be looked up but may be there: the caller must not take it for not written. */
function rethrowAsUnknown(error: unknown): never {
  if (!(error instanceof Problem) || error.status < 500) throw error;
  throw error.asUnknown();
}

function rethrowAsProblem(error: unknown): never {
  throw asProblem(error, undefined);
}

function asProblem(error: unknown, resource: Resource | undefined): unknown {
  return error instanceof CrmFailure ? crmProblem(error, resource === undefined ? {} : { resource }) : error;
}

async function asProblemOfOrg(error: unknown, refused: Refused): Promise<unknown> {
  const failure = error instanceof CrmFailure ? await explainByOrg(error, refused) : error;
  return asProblem(failure, refused.resource);
}

const recordRefusals: readonly FailureKind[] = [
  'rejected',
  'reference',
  'duplicate',
  'conflict',
  'setup',
  'broken',
];

function isDuplicate(error: unknown): boolean {
  return error instanceof CrmFailure && error.kind === 'duplicate';
}

const mostWaiting = 50;

class RecordOrder {
  /** By record: resolves, never rejects, when the last write in line is done. */
  readonly #lines = new Map<string, { last: Promise<unknown>; length: number }>();

  /** Throws `CrmFailure` (queue_full) where too many wait for this record, or the call's time ends first. */
  async run<T>(record: string, call: Call, work: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(record) ?? { last: Promise.resolve(), length: 0 };
    if (line.length > mostWaiting) throw queueFull();
    const done = line.length === 0 ? work() : inTime(line.last, remainingMs(call), queueFull).then(work);
    line.last = Promise.allSettled([line.last, done]);
    line.length += 1;
    this.#lines.set(record, line);
    try {
      return await done;
    } finally {
      line.length -= 1;
      if (line.length === 0) this.#lines.delete(record);
    }
  }
}
