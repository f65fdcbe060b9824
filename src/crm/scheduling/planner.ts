import type { FairQueue } from '../../platform/base/concurrency.ts';
import { mostHeavyParts } from '../budget/call-queue.ts';
import { largestBatch } from '../rest/request.ts';

/*
 * The planner: composes the next call from what waits and what is allowed. Pure functions; the scheduler takes what they
 * return out of its queues, and sends it.
 *
 *   own batch     of the kind whose turn it is: look-ups that a write begins with, then other requests, then background work;
 *                 within each of these consumers take turns
 *   companions    batches of other kinds beside it, while calls of the budget are short; the longest wait first
 *
 * A request whose parent is in a call that is in flight is left out: two calls with one parent would meet in the CRM, which
 * locks it for each (Salesforce, A Guide to Record Locking).
 */

/** Bytes in one call. The CRM documents no limit of a body; an answer of the same size must fit into memory too. */
export const mostBytes = 3 * 1024 * 1024;
/** While a call is divided, a consumer may have this much less of it than its part. */
const tolerance = 0.05;

export interface Waiting {
  readonly tenant: string;
  readonly size: number;
  /** By `now()`. */
  readonly deadline: number;
  readonly parent?: string | undefined;
}

export interface CallPart {
  rows: string | undefined;
  isWrite: boolean;
}

export interface PlannedKind<R extends Waiting> extends CallPart {
  readonly perCall: number;
  readonly queues: readonly [urgent: FairQueue<R>, requests: FairQueue<R>, background: FairQueue<R>];
}

export interface Allowed {
  /** By `now()`. */
  time: number;
  /** The longest that a call may take, and the least that one needs, in milliseconds. */
  timeoutMs: number;
  enoughMs: number;
  /** The part of a call that is each consumer's who asks; undefined while calls are not short. */
  parts: ReadonlyMap<string, number> | undefined;
  busyParents: ReadonlySet<string>;
}

interface Room<R> {
  records: number;
  bytes: number;
  sizeOf?: (request: R) => number;
  /** Milliseconds that each request must have left, where the batch joins a call that is not its own; it may hold nothing then. */
  joinsWithMs?: number;
  division?: Division;
}

export interface PlannedBatch<R> {
  requests: R[];
  late: R[];
  bytes: number;
  isHeldUp: boolean;
}

interface Line<R> {
  tenant: string;
  requests: R[];
  at: number;
}

export function planBatch<R extends Waiting>(
  queues: readonly FairQueue<R>[],
  room: Room<R>,
  allowed: Allowed,
): PlannedBatch<R> {
  const { division } = room;
  const batch: PlannedBatch<R> = { requests: [], late: [], bytes: 0, isHeldUp: false };
  const waiting = queues.reduce((sum, { size }) => sum + size, 0);
  const lines = queues.map((queue) => linesOf(queue, allowed));
  const open = lines.flat().reduce((sum, { requests }) => sum + requests.length, 0);
  const left = waiting > room.records ? reserved(room.records, allowed.parts) : undefined;
  const fits = (request: R) => fitsInto(batch, request, room, allowed);
  const mayHaveNext = (tenant: string) => division?.mayHaveNext(tenant) ?? true;
  const hasLeft = (tenant: string) => (left?.get(tenant) ?? 0) > 0 && mayHaveNext(tenant);
  const next = () => (left && nextOf(lines, fits, hasLeft)) ?? nextOf(lines, fits, mayHaveNext);
  for (let request = next(); request !== undefined; request = next()) {
    left?.set(request.tenant, (left.get(request.tenant) ?? 0) - 1);
    division?.note(request.tenant);
    if (isLate(request, room, allowed)) batch.late.push(request);
    else {
      batch.requests.push(request);
      batch.bytes += sizeIn(room, request);
    }
  }
  batch.isHeldUp = open < waiting && batch.requests.length + batch.late.length === open;
  return batch;
}

function linesOf<R extends Waiting>(queue: FairQueue<R>, allowed: Allowed): Line<R>[] {
  const lines: Line<R>[] = [];
  for (const [tenant, values] of queue.lines()) {
    const requests =
      allowed.busyParents.size === 0
        ? [...values]
        : [...values].filter((one) => !waitsForParent(one, allowed));
    if (requests.length > 0) lines.push({ tenant, requests, at: 0 });
  }
  return lines;
}

export function waitsForParent(
  { parent, deadline }: Waiting,
  { busyParents, time, timeoutMs }: Pick<Allowed, 'busyParents' | 'time' | 'timeoutMs'>,
): boolean {
  return parent !== undefined && busyParents.has(parent) && deadline - time >= timeoutMs;
}

function reserved(records: number, parts: Allowed['parts']): Map<string, number> | undefined {
  return parts && new Map(parts.entries().map(([tenant, part]) => [tenant, Math.ceil(part * records)]));
}

function fitsInto<R extends Waiting>(
  { requests, bytes }: PlannedBatch<R>,
  request: R,
  room: Room<R>,
  { time, timeoutMs }: Allowed,
): boolean {
  const leftMs = request.deadline - time;
  const [first] = requests;
  if (room.joinsWithMs !== undefined && leftMs < room.joinsWithMs) return false;
  // A call ends at the earliest deadline of its requests: one with little time must not shorten that of others.
  if (first !== undefined && first.deadline - time >= timeoutMs !== leftMs >= timeoutMs) return false;
  // A single request is sent whatever its size, but only in a call of its own kind.
  if (first === undefined && room.joinsWithMs === undefined) return true;
  return requests.length < room.records && bytes + sizeIn(room, request) <= room.bytes;
}

function isLate<R extends Waiting>({ deadline }: R, { joinsWithMs }: Room<R>, { time, enoughMs }: Allowed) {
  return joinsWithMs === undefined && deadline - time < enoughMs;
}

function sizeIn<R extends Waiting>({ sizeOf }: Room<R>, request: R): number {
  return sizeOf?.(request) ?? request.size;
}

function nextOf<R>(
  queues: readonly Line<R>[][],
  fits: (request: R) => boolean,
  mayHaveNext: (tenant: string) => boolean,
): R | undefined {
  for (const lines of queues) {
    const index = lines.findIndex(({ tenant }) => mayHaveNext(tenant));
    const line = lines[index];
    const request = line?.requests[line.at];
    if (line === undefined || request === undefined || !fits(request)) continue;
    lines.splice(index, 1);
    line.at += 1;
    if (line.at < line.requests.length) lines.push(line);
    return request;
  }
  return undefined;
}

export function heavyPartsOf(kinds: readonly CallPart[]): number {
  const queries = new Set(kinds.flatMap(({ rows }) => rows ?? []));
  return queries.size + kinds.filter(({ isWrite }) => isWrite).length;
}

/** Kinds in the order of their waits, that of a write counted twice; `time` and `waitsSince` by the same clock. */
export function companionsOf<K extends CallPart & { waitsSince: number | undefined }>(
  first: K,
  kinds: readonly K[],
  time: number,
): K[] {
  const waits = (kind: K) => (time - (kind.waitsSince ?? time)) * (kind.isWrite ? 2 : 1);
  const waiting = kinds.filter((kind) => kind !== first && kind.waitsSince !== undefined);
  const chosen = [first];
  for (const kind of waiting.toSorted((a, b) => waits(b) - waits(a)))
    if (heavyPartsOf([...chosen, kind]) <= mostHeavyParts) chosen.push(kind);
  return chosen.slice(1);
}

/**
 * Composes a call of the first kind with batches of its companions beside it. Each object has as many records in it as fit
 * on a page, and a consumer whose requests of the first kind do not all fit keeps its part of the call.
 */
export function planCall<R extends Waiting, K extends PlannedKind<R>>(
  first: K & PlannedKind<R>,
  companions: readonly (K & PlannedKind<R>)[],
  allowed: Allowed,
): (PlannedBatch<R> & { kind: K })[] {
  const room = { records: first.perCall, bytes: mostBytes };
  const own = planBatch(first.queues, room, allowed);
  const plan: (PlannedBatch<R> & { kind: K })[] = [{ ...own, kind: first }];
  const { time, timeoutMs } = allowed;
  // One with little time must not shorten that of others.
  const isShort = own.requests.some(({ deadline }) => deadline - time < timeoutMs);
  if (own.requests.length === 0 || isShort) return plan;
  const division = new Division(allowed.parts, leftBehind(first, own.requests));
  for (const { tenant } of own.requests) division.note(tenant);
  const records = new Map([[first.rows, own.requests.length]]);
  let bytes = mostBytes - own.bytes;
  for (const kind of companions) {
    const before = kind.rows === undefined ? 0 : (records.get(kind.rows) ?? 0);
    const beside = { records: Math.min(kind.perCall, largestBatch - before), bytes, division };
    const batch = planBatch(kind.queues, { ...beside, joinsWithMs: timeoutMs }, allowed);
    if (batch.requests.length === 0) continue;
    records.set(kind.rows, before + batch.requests.length);
    bytes -= batch.bytes;
    plan.push({ ...batch, kind });
  }
  return plan;
}

function leftBehind<R extends Waiting>(
  { queues: [urgent, requests] }: PlannedKind<R>,
  taken: readonly R[],
): Set<string> {
  const chosen = new Set(taken);
  return new Set([...urgent, ...requests].filter((one) => !chosen.has(one)).map(({ tenant }) => tenant));
}

/**
 * How a call is divided that batches of several kinds share: a consumer that has more requests waiting than go into it keeps
 * its part of those that do, whatever kinds the others have.
 */
class Division {
  readonly #kept: ReadonlyMap<string, number>;
  readonly #counts = new Map<string, number>();
  #total = 0;

  constructor(parts: Allowed['parts'], waiting: ReadonlySet<string>) {
    this.#kept = new Map(parts?.entries().filter(([consumer]) => waiting.has(consumer)));
  }

  mayHaveNext(consumer: string): boolean {
    for (const [each, part] of this.#kept) {
      if (each !== consumer && this.#countOf(each) < (part - tolerance) * (this.#total + 1)) return false;
    }
    return true;
  }

  note(consumer: string): void {
    this.#counts.set(consumer, this.#countOf(consumer) + 1);
    this.#total += 1;
  }

  #countOf(consumer: string): number {
    return this.#counts.get(consumer) ?? 0;
  }
}
