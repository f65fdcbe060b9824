import { dayMs } from '../../platform/base/moment.ts';

/*
 * The budget as all replicas share it, in one value that is replaced as a whole: a leaky bucket, the replicas that take
 * calls out of the budget, and the calls of the last 24 hours. Each call fills the bucket by one before it is made. The
 * bucket drains at the rate of the budget, and holds `burst` calls. So in any time t no more than `burst + rate * t` calls
 * are made, however many replicas there are. The calls that a replica held when it was killed stay counted; they are few.
 */

const quarterMs = 900_000;
const quartersOfDay = 96;
const quartersOfHour = 4;
export const syncEveryMs = 20_000;
const goneAfterMs = 60_000;
/** Milliseconds after which a write that a replica has registered as waiting no longer counts. */
const writeGoneAfterMs = 5000;
/** A call that has been available for this long may go to any write: the replica with the oldest one may be gone. */
const unclaimedMs = 100;
const clockErrorMs = 50;
export const largestLease = 20;
/** Against rounding: 0.9999999 calls are one call. */
const tolerance = 1e-6;

export interface BudgetLimits {
  /** Calls a millisecond. */
  rate: number;
  burst: number;
  /** The longest that a request waits for a call, in milliseconds. */
  maxWaitMs: number;
}

export function limitsOf(dailyCalls: number, maxWaitMs: number): BudgetLimits {
  return { rate: dailyCalls / dayMs, burst: Math.max(30, dailyCalls / 100), maxWaitMs };
}

export interface Bucket {
  id: string;
  /** Calls in it at the time `at`; times are milliseconds by the store's clock. */
  level: number;
  at: number;
  last: 'write' | 'read';
  counts: Readonly<Record<string, number>>;
  replicas: Readonly<Record<string, Registration>>;
  org?: OrgUse;
}

interface OrgUse {
  used: number;
  limit: number;
  at: number;
}

interface Registration {
  seenAt: number;
  writeSince?: number;
}

export interface SyncRequest {
  replica: string;
  returned: number;
  unleased: number;
  writes: number;
  reads: number;
  polls: number;
  ahead: number;
  most: number;
  /** How long its oldest write has waited, in milliseconds. */
  writeWaitedMs?: number | undefined;
  /** The org's quota as the CRM last reported it to this replica, this many milliseconds ago. */
  org?: { used: number; limit: number; ageMs: number } | undefined;
  leaves?: boolean;
}

export interface Grant {
  writes: number;
  reads: number;
  ahead: number;
}

export function newBucket(id: string, now: number): Bucket {
  return { id, level: 0, at: now, last: 'read', counts: {}, replicas: {} };
}

/** Calls that may be made now; below 0 where more were made than may be. */
export function availableIn(bucket: Bucket, now: number, { rate, burst }: BudgetLimits): number {
  return burst - levelAt(bucket, now, rate);
}

function levelAt({ level, at }: Bucket, now: number, rate: number): number {
  // A clock that was set back drains nothing.
  return Math.max(0, level - Math.max(0, now - at) * rate);
}

export function usedIn({ counts }: Bucket, now: number): number {
  return Object.values(countsOfDay(counts, now)).reduce((sum, calls) => sum + calls, 0);
}

/** Calls a millisecond in the last 45 to 60 minutes: a start, or a page that opens, is not taken for what goes on. */
export function rateIn({ counts }: Bucket, now: number): number {
  const first = quarterOf(now) - quartersOfHour + 1;
  const calls = Object.entries(counts).reduce(
    (sum, [quarter, made]) => (Number(quarter) < first ? sum : sum + made),
    0,
  );
  return calls / (now - first * quarterMs);
}

export function replicasIn(bucket: Bucket, now: number): number {
  return Object.values(bucket.replicas).filter(({ seenAt }) => now - seenAt < goneAfterMs).length;
}

export function sync(before: Bucket, request: SyncRequest, now: number, limits: BudgetLimits) {
  const { replica, returned, unleased } = request;
  const available = availableIn(before, now, limits) + returned - unleased;
  const { grant, last } = grantTo(before, request, now, Math.min(limits.burst, available), limits);
  const granted = grant.writes + grant.reads + grant.ahead;
  const replicas = register(before.replicas, request, grant, now);
  const org = latestUse(before.org, request.org, now);
  const bucket: Bucket = {
    id: before.id,
    level: Math.max(0, limits.burst - available) + granted,
    at: now,
    last,
    counts: count(before.counts, unleased + granted - returned, now),
    replicas,
    ...(org && { org }),
  };
  const isChanged =
    unleased + granted + returned > 0 ||
    request.leaves === true ||
    (org !== undefined && before.org === undefined) ||
    isWorthStoring(before.replicas[replica], replicas[replica], now);
  return { bucket, grant, isChanged };
}

/**
 * Over all replicas the oldest write comes first, then other writes, then reads and polls. But after each write one of these
 * is served, unless a write would have to be refused for that. A poll is served even then where calls are so far apart that
 * each write would be refused for it: polls must not stop.
 */
function grantTo(bucket: Bucket, request: SyncRequest, now: number, available: number, limits: BudgetLimits) {
  const others = writesOfOthers(bucket, request.replica, now);
  const own = request.writeWaitedMs === undefined ? [] : [now - request.writeWaitedMs];
  // It would reach its maximum wait before the call after this one.
  const isUrgent = [...others, ...own].some((since) => now - since + 1 / limits.rate >= limits.maxWaitMs);
  const isPollFirst = request.polls > 0 && 1 / limits.rate >= limits.maxWaitMs;
  const isOldest = !others.some((since) => own.some((ownSince) => isOtherWrite(since, ownSince)));
  const grant: Grant = { writes: 0, reads: 0, ahead: 0 };
  let { last } = bucket;
  let left = available + tolerance;
  for (let taken = 0; taken < request.most && left >= 1; taken++, left--) {
    const next = nextOf(request, grant, {
      isReadFirst: last === 'write' && (!isUrgent || isPollFirst),
      mayWrite: isOldest || left >= 1 + unclaimedMs * limits.rate,
      // One call is left for the oldest write of each other replica.
      mayRead: left >= others.length + 1,
    });
    if (next === undefined) break;
    grant[`${next}s`] += 1;
    last = next;
  }
  const capacity = Math.max(0, request.most - grant.writes - grant.reads);
  if (left - request.ahead >= limits.burst / 2) grant.ahead = Math.min(capacity, request.ahead);
  return { grant, last };
}

function nextOf(
  request: SyncRequest,
  grant: Grant,
  { isReadFirst, mayWrite, mayRead }: { isReadFirst: boolean; mayWrite: boolean; mayRead: boolean },
): Bucket['last'] | undefined {
  const hasRead = grant.reads < request.reads + request.polls;
  if (hasRead && isReadFirst) return 'read';
  if (mayWrite && grant.writes < request.writes) return 'write';
  return hasRead && mayRead ? 'read' : undefined;
}

function writesOfOthers(bucket: Bucket, replica: string, now: number): number[] {
  return Object.entries(bucket.replicas).flatMap(([id, { seenAt, writeSince }]) =>
    id !== replica && writeSince !== undefined && now - seenAt < writeGoneAfterMs ? [writeSince] : [],
  );
}

function register(
  known: Bucket['replicas'],
  { replica, leaves, writes, writeWaitedMs }: SyncRequest,
  grant: Grant,
  now: number,
): Bucket['replicas'] {
  const others = Object.entries(known).filter(
    ([id, { seenAt }]) => id !== replica && now - seenAt < goneAfterMs,
  );
  if (leaves) return Object.fromEntries(others);
  const isWaiting = grant.writes < writes && writeWaitedMs !== undefined;
  const own = { seenAt: now, ...(isWaiting && { writeSince: now - writeWaitedMs }) };
  return Object.fromEntries([...others, [replica, own]]);
}

function latestUse(known: OrgUse | undefined, reported: SyncRequest['org'], now: number): OrgUse | undefined {
  if (reported === undefined) return known;
  const { used, limit, ageMs } = reported;
  const at = now - ageMs;
  return known && known.at >= at ? known : { used, limit, at };
}

function isWorthStoring(before: Registration | undefined, after: Registration | undefined, now: number) {
  if (before === undefined || isOtherWrite(before.writeSince, after?.writeSince)) return true;
  return now - before.seenAt >= (after?.writeSince === undefined ? syncEveryMs : writeGoneAfterMs) / 2;
}

function count(counts: Bucket['counts'], calls: number, now: number): Bucket['counts'] {
  const quarter = quarterOf(now);
  return { ...countsOfDay(counts, now), [quarter]: (counts[quarter] ?? 0) + calls };
}

function countsOfDay(counts: Bucket['counts'], now: number): Record<string, number> {
  const first = quarterOf(now) - quartersOfDay;
  return Object.fromEntries(Object.entries(counts).filter(([quarter]) => Number(quarter) > first));
}

function quarterOf(now: number): number {
  return Math.floor(now / quarterMs);
}

export function isOtherWrite(before: number | undefined, after: number | undefined): boolean {
  if (before === undefined || after === undefined) return before !== after;
  return after - before > clockErrorMs;
}

export function merge(stored: Bucket, known: Bucket, now: number, { rate }: BudgetLimits): Bucket {
  const counts: Record<string, number> = { ...stored.counts };
  for (const [quarter, calls] of Object.entries(known.counts))
    counts[quarter] = Math.max(calls, counts[quarter] ?? 0);
  const level = Math.max(levelAt(stored, now, rate), levelAt(known, now, rate));
  return { ...stored, level, at: now, counts };
}

export function parseBucket(text: string | undefined): Bucket | undefined {
  try {
    const found = JSON.parse(text ?? 'null') as Partial<Bucket> | null;
    const isBucket =
      typeof found?.id === 'string' &&
      Number.isFinite(found.level) &&
      Number.isFinite(found.at) &&
      isObject(found.counts) &&
      isObject(found.replicas);
    return isBucket ? (found as Bucket) : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
