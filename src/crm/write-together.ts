import type { Call } from '../platform/base/call.ts';
import { sleep, wallMs } from '../platform/base/chance.ts';
import { creatorOf } from '../records/created-by.ts';
import { resourceKey } from '../records/members.ts';
import {
  type ReadBack,
  type RecordRef,
  type RecordWrite,
  type StoredRecord,
  type WriteRefusal,
  WritesRefused,
} from '../records/records.ts';
import type { Resource } from '../records/resource.ts';
import { nativeIdOf, readCollection, readComposite, toComposite, unusable } from './batching/composite.ts';
import { byKey, parentIn, readPage, toPart } from './batching/find.ts';
import type { ItemOutcome, Operation } from './batching/operation.ts';
import { ownerRefusal, typeRefusal, valueRefusal } from './batching/record-operation.ts';
import { CrmFailure, isCertainlyUnsent } from './failure.ts';
import { constantsOf, toCrmFields } from './mapping/records.ts';
import { explainByOrg } from './org-refusals.ts';
import type { OwnerChoice, Owners } from './owners.ts';
import { type NamedQuery, queriesOf, type ReadTogetherOptions, withColumns } from './read-together.ts';
import { type AnsweredRequest, failureOf } from './rest/errors.ts';
import { crmProblem } from './rest/problems.ts';
import {
  type BatchCall,
  type CrmAnswer,
  type CrmRequest,
  isSuccess,
  type Part,
  type Permit,
} from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { ObjectSize, type RequestKind } from './scheduling/request-kind.ts';
import type { Scheduler } from './scheduling/scheduler.ts';
import { type UsedOfAll, usedOf, withoutFields } from './usable-columns.ts';

/*
 * Several records of several resources in one metered call. A Composite call with `allOrNone` is one transaction: creations and
 * changes are one collection each, with `allOrNone` too (REST Developer Guide, Composite, sObject Collections).
 */

export interface TogetherOptions extends ReadTogetherOptions {
  client: Pick<CrmClient, 'send' | 'dataPath' | 'writeHeaders' | 'retryBudget'>;
  scheduler: Scheduler;
  transactions: RequestKind<Transaction, CrmAnswer>;
  owners: Owners;
}

class ItemsRefused extends Error {
  readonly failures: readonly (CrmFailure | undefined)[];

  constructor(failures: readonly (CrmFailure | undefined)[]) {
    super('writes were refused', { cause: failures.find((failure) => failure !== undefined) });
    this.failures = failures;
  }
}

class ReadBackFailed extends Error {
  constructor(cause: CrmFailure) {
    super('writes were rolled back since they could not be read', { cause });
  }
}

export async function writeTogether(
  options: TogetherOptions,
  writes: readonly RecordWrite[],
  call: Call,
  { readBack = false }: ReadBack = {},
): Promise<(RecordRef | StoredRecord)[]> {
  const refused = writes.map((write) => refusalOf(write, call));
  if (refused.some((failure) => failure !== undefined)) throw await refusedOf(writes, refused, call);
  try {
    return await sendWithOwners(options, writes, call, readBack);
  } catch (error) {
    throw error instanceof ItemsRefused ? await refusedOf(writes, error.failures, call) : error;
  }
}

function toNamed({ resource, values }: RecordWrite): { resource: Resource; names: readonly string[] } {
  return { resource, names: Object.keys(values) };
}

function refusalOf(
  { resource, values, record, validUntil }: RecordWrite,
  call: Call,
): CrmFailure | undefined {
  if (validUntil !== undefined && wallMs() >= validUntil)
    return new CrmFailure('ended', 'an offer has ended');
  const ofNew = record === undefined ? newRefusal(resource, call) : undefined;
  return ofNew ?? valueRefusal(resource, values);
}

function newRefusal(resource: Resource, call: Call): CrmFailure | undefined {
  return ownerRefusal(resource, call.visible(resource.collection)) ?? typeRefusal(resource);
}

async function refusedOf(
  writes: readonly RecordWrite[],
  failures: readonly (CrmFailure | undefined)[],
  call: Call,
): Promise<WritesRefused> {
  const refusals = await Promise.all(
    failures.map(async (failure, index): Promise<WriteRefusal[]> => {
      const write = writes[index];
      if (failure === undefined || write === undefined) return [];
      const { resource, record, values } = write;
      const need = record === undefined ? 'create' : 'write';
      const explained = await explainByOrg(failure, { resource, need, written: Object.keys(values), call });
      const problem = crmProblem(explained, { resource });
      return [{ index, problem, isDuplicate: failure.kind === 'duplicate' }];
    }),
  );
  return new WritesRefused(refusals.flat());
}

async function sendWithOwners(
  options: TogetherOptions,
  writes: readonly RecordWrite[],
  call: Call,
  readBack: boolean,
): Promise<(RecordRef | StoredRecord)[]> {
  const owners: OwnerChoice[] = [];
  for (const { resource, record } of writes) {
    const isKnown = owners.some((owner) => resourceKey(owner.resource) === resourceKey(resource));
    if (record === undefined && !isKnown) owners.push(await options.owners.choose(resource, call));
  }
  for (;;) {
    try {
      const written = await sendReadingBack(options, writes, { call, owners, readBack });
      for (const owner of owners) owner.accept();
      return written;
    } catch (error) {
      if (!owners.toReversed().some((owner) => owner.reject(error))) throw error;
    }
  }
}

interface Sending {
  call: Call;
  used: UsedOfAll;
  owners: readonly OwnerChoice[];
  readBack: boolean;
}

/** Sends them without the queries that read them back where one of these has rolled all back. */
async function sendReadingBack(
  options: TogetherOptions,
  writes: readonly RecordWrite[],
  sending: Omit<Sending, 'used'>,
): Promise<(RecordRef | StoredRecord)[]> {
  const sendWith = (readBack: boolean) =>
    withColumns(options, writes.map(toNamed), (used) =>
      sendPastLocks(options, writes, { ...sending, used, readBack }),
    );
  try {
    return await sendWith(sending.readBack);
  } catch (error) {
    if (!(error instanceof ReadBackFailed)) throw error;
    return sendWith(false);
  }
}

/** Sends again what a lock has rolled back, as the client repeats a write that was locked. */
async function sendPastLocks(
  options: TogetherOptions,
  writes: readonly RecordWrite[],
  sending: Sending,
): Promise<(RecordRef | StoredRecord)[]> {
  const { retryBudget } = options.client;
  let refused: ItemsRefused | undefined;
  for (let tried = 1; ; tried++) {
    try {
      return await send(options, writes, sending);
    } catch (error) {
      // A repeat that was not sent shows nothing.
      if (refused !== undefined && isCertainlyUnsent(error)) throw refused;
      const locked = lockIn(error);
      const pauseMs = locked && retryBudget.pauseBeforeRepeat(locked, sending.call, tried);
      if (pauseMs === undefined) throw error;
      refused = error as ItemsRefused;
      await sleep(pauseMs);
    }
  }
}

/** Failure of the items, where nothing but locks has kept them from being written. */
function lockIn(error: unknown): CrmFailure | undefined {
  if (!(error instanceof ItemsRefused)) return undefined;
  const failures = error.failures.filter((failure) => failure !== undefined);
  return failures.every(({ kind }) => kind === 'locked') ? failures[0] : undefined;
}

interface Placed {
  write: RecordWrite;
  index: number;
  body: object;
}

interface Group {
  method: 'POST' | 'PATCH';
  placed: readonly Placed[];
}

async function send(
  options: TogetherOptions,
  writes: readonly RecordWrite[],
  sending: Sending,
): Promise<(RecordRef | StoredRecord)[]> {
  const { client, toRecordOf } = options;
  const { dataPath, writeHeaders } = client;
  const { call, used, readBack } = sending;
  const placed = writes.map((write, index) => ({ write, index, body: toRecordBody(write, sending) }));
  const groups = groupsOf(placed);
  const queries = readBack ? queriesOf(writes, used) : [];
  const parts: Part[] = groups.map(({ method, placed: own }) => ({
    method,
    path: `${dataPath}/composite/sobjects`,
    httpHeaders: writeHeaders,
    body: { allOrNone: true, records: own.map(({ body }) => body) },
  }));
  parts.push(...queries.map(({ query }) => toPart(dataPath, query)));
  const ends = writes.map(({ validUntil = Number.POSITIVE_INFINITY }) => validUntil);
  const request: CrmRequest = {
    operation: 'mixed',
    effect: 'create',
    records: writes.length,
    notAfter: Math.min(...ends),
    ...toComposite(dataPath, parts, { allOrNone: true }),
  };
  const parents = writes.flatMap(
    ({ resource, values, record }) => parentIn(resource, { ...record?.values, ...values }) ?? [],
  );
  const answer = await options.scheduler.submit(options.transactions, { request, parent: parents[0] }, call);
  const answers = readComposite(answer, parts.length, request);
  const ids = readIds(groups, answers, request, writes.length);
  const rows = readBackOf(queries, answers.slice(groups.length), dataPath);
  return writes.map(({ resource, externalId }, index) => {
    const row = rows.get(resource.name)?.get(externalId.toLowerCase());
    return (
      (row && toRecordOf(resource, usedOf(used, resource).resource)(row)) ?? {
        nativeId: ids[index] as string,
      }
    );
  });
}

function groupsOf(placed: readonly Placed[]): Group[] {
  const sorted = placed.toSorted((a, b) =>
    a.write.resource.crmObject.localeCompare(b.write.resource.crmObject, 'en'),
  );
  const isNew = ({ write }: Placed) => write.record === undefined;
  const groups: Group[] = [
    { method: 'POST', placed: sorted.filter(isNew) },
    { method: 'PATCH', placed: sorted.filter((one) => !isNew(one)) },
  ];
  return groups.filter((group) => group.placed.length > 0);
}

function toRecordBody(
  { resource, externalId, values, record }: RecordWrite,
  { used, owners, call }: Sending,
): object {
  const { leftOut } = usedOf(used, resource);
  const ownerId = owners.find((owner) => resourceKey(owner.resource) === resourceKey(resource))?.ownerId;
  const ofNew = { ...creatorOf(resource, call), ...values, id: externalId.toLowerCase() };
  const given = record === undefined ? ofNew : values;
  return {
    attributes: { type: resource.crmObject },
    ...(record === undefined ? constantsOf(resource) : { id: record.nativeId }),
    ...toCrmFields(resource, withoutFields(given, leftOut)),
    ...(record === undefined && ownerId !== undefined && { OwnerId: ownerId }),
  };
}

function readIds(
  groups: readonly Group[],
  answers: readonly CrmAnswer[],
  request: CrmRequest,
  count: number,
): string[] {
  const outcomes = groups.flatMap((group, at) => outcomesOf(group, answers[at] as CrmAnswer, request));
  const failures: (CrmFailure | undefined)[] = Array.from({ length: count }, () => undefined);
  const ids: string[] = [];
  for (const { index, outcome } of outcomes) {
    if ('result' in outcome) ids[index] = nativeIdOf(outcome.result['id'], request);
    else if (!isRolledBack(outcome.failure)) failures[index] = outcome.failure;
  }
  if (failures.some((failure) => failure !== undefined)) throw new ItemsRefused(failures);
  if (Object.keys(ids).length === count) return ids;
  const failed = groups.flatMap((_, at) => wholeFailure(answers[at] as CrmAnswer, request));
  const unread = failed.length < groups.length ? undefined : readBackFailure(answers.slice(groups.length));
  throw failed.find((failure) => !isRolledBack(failure)) ?? unread ?? unusable(request);
}

function readBackFailure(answers: readonly CrmAnswer[]): ReadBackFailed | undefined {
  const failures = answers.flatMap((answer) => wholeFailure(answer, { effect: 'read' }));
  const failure = failures.find((one) => !isRolledBack(one));
  return failure && new ReadBackFailed(failure);
}

function outcomesOf({ method, placed }: Group, answer: CrmAnswer, request: CrmRequest) {
  if (!isOfItems(answer, placed.length)) return [];
  const singles = placed.map((one) => toSingle(one, method, request));
  return readCollection(answer, singles, request).map((outcome, position) => {
    const { index } = placed[position] as Placed;
    return { index, outcome };
  });
}

function wholeFailure(answer: CrmAnswer, request: AnsweredRequest): CrmFailure[] {
  return isSuccess(answer) ? [] : [failureOf(answer, request)];
}

function isOfItems({ body }: CrmAnswer, count: number): boolean {
  return Array.isArray(body) && body.length === count && body.every((item) => 'success' in Object(item));
}

function isRolledBack({ facts: { error } }: CrmFailure): boolean {
  return error?.code === 'ALL_OR_NONE_OPERATION_ROLLED_BACK' || error?.code === 'PROCESSING_HALTED';
}

function toSingle({ write, body }: Placed, method: Group['method'], { path }: CrmRequest): CrmRequest {
  const isNew = method === 'POST';
  const { resource } = write;
  const kind = isNew
    ? ({ operation: 'create', effect: 'create' } as const)
    : ({ operation: 'update', effect: 'change' } as const);
  return { ...kind, method, path, body, resource, addressesRecord: !isNew };
}

function readBackOf(queries: readonly NamedQuery[], answers: readonly CrmAnswer[], dataPath: string) {
  return new Map(
    queries.map(({ resource }, index) => {
      const answer = answers[index];
      const rows = answer && isSuccess(answer) ? readPage(answer, dataPath) : undefined;
      const isWhole = rows !== undefined && rows.next === undefined;
      return [resource.name, byKey(resource, isWhole ? rows.rows : [])];
    }),
  );
}

interface Transaction {
  request: CrmRequest;
  parent: string | undefined;
}

class Transact implements Operation<Transaction, CrmAnswer> {
  readonly name = 'together';
  readonly effect = 'create';
  readonly #client: Pick<CrmClient, 'execute'>;

  constructor(client: Pick<CrmClient, 'execute'>) {
    this.#client = client;
  }

  size(): number {
    return 0;
  }

  parentOf({ parent }: Transaction): string | undefined {
    return parent;
  }

  async execute(
    transactions: readonly Transaction[],
    call: BatchCall,
    permit?: Permit,
  ): Promise<ItemOutcome<CrmAnswer>[]> {
    const [{ request }] = transactions as [Transaction];
    return [{ result: await this.#client.execute(request, call, permit) }];
  }
}

export function addTransactions(
  scheduler: Scheduler,
  client: CrmClient,
): RequestKind<Transaction, CrmAnswer> {
  return scheduler.addKind({
    ...{ name: 'transaction', batchKey: 'transaction', operation: new Transact(client) },
    ...{ object: 'several', objectSize: new ObjectSize(), rows: undefined, isShared: false },
  });
}
