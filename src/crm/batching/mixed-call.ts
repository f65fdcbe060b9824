import { startCall } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { mostHeavyParts } from '../budget/call-queue.ts';
import { CrmFailure, isTooMuch } from '../failure.ts';
import {
  type BatchCall,
  type CrmAnswer,
  type CrmRequest,
  largestBatch,
  type Part,
  type Permit,
  sharersOf,
} from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { type RowsQuery, together } from '../soql/query.ts';
import { readComposite, requireSuccess, toComposite } from './composite.ts';
import { toPart } from './find.ts';

/** Parts of a Composite call (REST Developer Guide, Composite). */
const mostParts = 25;

interface Member {
  request: CrmRequest;
  call: BatchCall;
  resolve: (answer: CrmAnswer | Promise<CrmAnswer>) => void;
  reject: (error: unknown) => void;
}

interface MixedCallOptions {
  client: Pick<CrmClient, 'exchange' | 'dataPath' | 'writeHeaders'>;
  permit: Permit;
  batches: number;
  onTooMuch: () => void;
}

/**
 * One metered call for the requests of several batches: a Composite call with the parts of all, writes first. Each batch
 * gets its own part of the answer, as that of a call of its own; what follows from it (splitting, looking up, repeating) it
 * does in calls of its own. Queries with the same columns are put together.
 */
export class MixedCall {
  readonly #options: MixedCallOptions;
  readonly #members: Member[] = [];
  #missing: number;

  constructor(options: MixedCallOptions) {
    this.#options = options;
    this.#missing = options.batches;
  }

  permits(): Permit[] {
    return Array.from({ length: this.#options.batches }, () => this.#newPermit());
  }

  #newPermit(): Permit {
    let isUsed = false;
    const use = (): boolean => {
      if (isUsed) return false;
      isUsed = true;
      this.#missing -= 1;
      return true;
    };
    const join = (request: CrmRequest, call: BatchCall) => {
      if (!use()) return this.#options.client.exchange(request, call);
      const { promise, resolve, reject } = Promise.withResolvers<CrmAnswer>();
      this.#members.push({ request, call, resolve, reject });
      if (this.#missing === 0) void this.#send();
      return promise;
    };
    const release = () => {
      if (use() && this.#missing === 0) void this.#send();
    };
    return { token: this.#options.permit.token, shared: { join }, release };
  }

  /** Never throws. */
  async #send(): Promise<void> {
    const { client, permit } = this.#options;
    const members = this.#members.filter((member) => !isLate(member));
    const [first, ...others] = members;
    if (first === undefined) permit.release();
    else if (others.length === 0) first.resolve(client.exchange(first.request, first.call, permit));
    else await this.#sendTogether(members);
  }

  async #sendTogether(candidates: readonly Member[]): Promise<void> {
    const { client, permit } = this.#options;
    const plan = new MixedParts(client.writeHeaders);
    const members: { member: Member; read: ReadParts }[] = [];
    for (const member of candidates) {
      const read = plan.add(member.request);
      if (read !== undefined) members.push({ member, read });
      // Rarely: columns that an org may lack differ between the queries, for example.
      else member.resolve(client.exchange(member.request, member.call));
    }
    const requests = members.map(({ member }) => member.request);
    const request = toMixedRequest(requests, plan.parts(client.dataPath), client.dataPath);
    const call = callOf(members.map(({ member }) => member.call));
    try {
      const answer = await client.exchange(request, call, permit);
      const answers = readComposite(answer, request.parts?.length ?? 0, request);
      for (const { member, read } of members) this.#settle(member, answer, read(answers));
    } catch (error) {
      if (isTooMuchTogether(error)) this.#options.onTooMuch();
      for (const { member } of members) this.#fail(member, error);
    } finally {
      for (const { member } of members) member.call.crmMs += call.crmMs;
    }
  }

  #settle(member: Member, { headers }: CrmAnswer, answers: readonly CrmAnswer[]): void {
    const { request, resolve, reject } = member;
    try {
      resolve(answerTo(request, headers, answers));
    } catch (error) {
      if (error instanceof CrmFailure && error.kind === 'session') this.#sendAlone(member);
      else reject(error);
    }
  }

  #fail(member: Member, error: unknown): void {
    const isRead = member.request.effect === 'read';
    if (!(error instanceof CrmFailure)) member.reject(error);
    else if (mayBeOthers(error) || (isRead && isTooMuch(error))) this.#sendAlone(member);
    else {
      const outcomeUnknown = error.outcomeUnknown && !isRead;
      member.reject(new CrmFailure(error.kind, error.message, { ...error.facts, outcomeUnknown }));
    }
  }

  #sendAlone({ request, call, resolve }: Member): void {
    resolve(this.#options.client.exchange(request, call));
  }
}

type ReadParts = (answers: readonly CrmAnswer[]) => CrmAnswer[];

interface Gathered {
  queries: [RowsQuery, ...RowsQuery[]];
  records: number;
}

class MixedParts {
  readonly #writeHeaders: Readonly<Record<string, string>>;
  readonly #others: Part[] = [];
  readonly #queries: Gathered[] = [];

  constructor(writeHeaders: Readonly<Record<string, string>>) {
    this.#writeHeaders = writeHeaders;
  }

  add(request: CrmRequest): ReadParts | undefined {
    const parts = partsOf(request, this.#writeHeaders);
    const others = parts.filter(({ query }) => query === undefined);
    const queries = parts.flatMap(({ query }) => query ?? []);
    const newQueries = queries.filter((query) => this.#gatheredFor(query) === undefined).length;
    const heavy = [...this.#others, ...others].filter(isHeavy).length + this.#queries.length + newQueries;
    const count = this.#others.length + others.length + this.#queries.length + newQueries;
    if (heavy > mostHeavyParts || count > mostParts) return undefined;
    const added = parts.map((part) =>
      part.query
        ? { isQuery: true, index: this.#gather(part.query) }
        : { isQuery: false, index: this.#others.push(part) - 1 },
    );
    // The queries come last; how many parts stand before them is known when all requests are added.
    return (answers) =>
      added.map(({ isQuery, index }) => answers[isQuery ? this.#others.length + index : index] as CrmAnswer);
  }

  parts(dataPath: string): Part[] {
    return [...this.#others, ...this.#queries.map(({ queries }) => toPart(dataPath, together(queries)))];
  }

  #gatheredFor({ select, withDeleted, records }: RowsQuery): Gathered | undefined {
    return this.#queries.find(
      ({ queries: [first], records: others }) =>
        first.select === select &&
        first.withDeleted === withDeleted &&
        // More may not fit on one page.
        others + records <= largestBatch,
    );
  }

  #gather(query: RowsQuery): number {
    const found = this.#gatheredFor(query);
    if (found === undefined) return this.#queries.push({ queries: [query], records: query.records }) - 1;
    found.queries.push(query);
    found.records += query.records;
    return this.#queries.indexOf(found);
  }
}

function partsOf(request: CrmRequest, writeHeaders: Readonly<Record<string, string>>): readonly Part[] {
  const { parts, method, path, body, query, effect, operation } = request;
  if (parts !== undefined) return parts;
  const httpHeaders = effect === 'read' || operation === 'delete' ? {} : writeHeaders;
  return [{ method, path, httpHeaders, ...(body && { body }), ...(query && { query }) }];
}

function isHeavy({ path }: Part): boolean {
  return /\/composite\/sobjects\b/.test(path);
}

function toMixedRequest(
  requests: readonly CrmRequest[],
  parts: readonly Part[],
  dataPath: string,
): CrmRequest {
  return {
    operation: 'mixed',
    effect: requests.every(({ effect }) => effect === 'read') ? 'read' : 'change',
    // Never one: its answer may be as large as that of several.
    records: requests.reduce((sum, { records = 1 }) => sum + records, 0),
    notAfter: Math.min(...requests.map(({ notAfter = Number.POSITIVE_INFINITY }) => notAfter)),
    ...toComposite(dataPath, parts),
  };
}

function callOf(calls: readonly BatchCall[]): BatchCall {
  const [first] = calls as [BatchCall];
  return {
    ...startCall('mixed', undefined, undefined, first.span),
    kind: first.kind,
    deadline: Math.min(...calls.map(({ deadline }) => deadline)),
    isWrite: calls.some(({ isWrite }) => isWrite === true),
    sharers: calls.flatMap(sharersOf),
  };
}

/** The answer that the request would get in a call of its own. Throws `CrmFailure` as that would. */
function answerTo(
  request: CrmRequest,
  headers: CrmAnswer['headers'],
  answers: readonly CrmAnswer[],
): CrmAnswer {
  if (request.parts === undefined) return requireSuccess(answers[0] as CrmAnswer, request);
  const compositeResponse = answers.map(({ status, body }) => ({ httpStatusCode: status, body }));
  const answer = { status: 200, headers, body: { compositeResponse } };
  return request.unwrap?.(answer) ?? answer;
}

function isLate({ request, reject }: Member): boolean {
  const isOver = request.notAfter !== undefined && wallMs() >= request.notAfter;
  if (isOver) reject(new CrmFailure('late', 'no time was left for the call'));
  return isOver;
}

function mayBeOthers({ kind, facts: { status = 0, outcomeUnknown } }: CrmFailure): boolean {
  if (outcomeUnknown === true) return false;
  const isRefused = status >= 400 && status < 500 && !['session', 'busy', 'quota', 'locked'].includes(kind);
  return isRefused || kind === 'late';
}

function isTooMuchTogether(error: unknown): boolean {
  return error instanceof CrmFailure && (error.kind === 'timeout' || isTooMuch(error));
}
