/*
 * The budget as all replicas share it: a leaky bucket, with who takes from it and what was taken. Each call fills it by
 * one; it drains at the rate of the budget, and holds as many as may be made at once. One value, changed as a whole.
 *
 * What follows from it: no time t has more than `burst + rate * t` calls, however many replicas there are. A call is in
 * the bucket before it is made. So calls that a replica had taken when it was killed stay counted; they are few.
 */

const dayMs = 86_400_000;
/** Calls are counted by quarters of an hour. */
const quarterMs = 900_000;
const quartersOfDay = 96;
/** A replica that was silent for so long is gone: it comes by every `visitEveryMs`. */
const goneAfterMs = 60_000;
export const visitEveryMs = 20_000;
/** A replica that waits for a write comes by at least so often; after that it waits no more. */
const writeMarkMs = 5000;
/** A call that nobody has taken for so long is there for any write. */
const leftLyingMs = 100;
/** Two clocks do not agree on since when a write waits. */
const sameWriteMs = 50;
/** Calls that one replica may hold. */
export const largestLease = 20;
/** For calls that are no whole numbers. */
const tiny = 1e-6;

export interface BudgetLimits {
  /** Calls a millisecond. */
  rate: number;
  /** Calls that may be made at once. */
  burst: number;
  /** The longest that a request waits for a call, in milliseconds. */
  maxWaitMs: number;
}

export function limitsOf(dailyCalls: number, maxWaitMs: number): BudgetLimits {
  return { rate: dailyCalls / dayMs, burst: Math.max(30, dailyCalls / 100), maxWaitMs };
}

export interface Bucket {
  /** A bucket that was made anew, for whatever reason, has another. */
  id: string;
  /** Calls in it at the time `at`; times are milliseconds by the store's clock. */
  level: number;
  at: number;
  /** What the last call was taken for. */
  last: 'write' | 'read';
  /** Calls by the number of their quarter of an hour. */
  counts: Readonly<Record<string, number>>;
  replicas: Readonly<Record<string, Registration>>;
}

export interface Registration {
  seenAt: number;
  /** Since when its oldest write waits. */
  writeSince?: number;
}

/** What one replica wants. */
export interface Visit {
  replica: string;
  /** Calls that it has taken and does not need. */
  returned: number;
  /** Calls that it has made without taking them. */
  owed: number;
  /** Calls that wait for writes, and for others. */
  writes: number;
  reads: number;
  /** Calls that it will need soon, where there are plenty. */
  ahead: number;
  /** Calls that it takes at most. */
  most: number;
  /** How long its oldest write has waited, in milliseconds. */
  writeWaitedMs?: number | undefined;
  /** It stops. */
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
  // A clock that was set back drains nothing.
  return burst - Math.max(0, bucket.level - Math.max(0, now - bucket.at) * rate);
}

/** Calls in the 24 hours that end now, the last quarter of an hour of them left out. */
export function usedIn(bucket: Bucket, now: number): number {
  const first = quarterOf(now) - quartersOfDay;
  return Object.entries(bucket.counts).reduce(
    (sum, [quarter, calls]) => sum + (Number(quarter) > first ? calls : 0),
    0,
  );
}

export function replicasIn(bucket: Bucket, now: number): number {
  return Object.values(bucket.replicas).filter(({ seenAt }) => now - seenAt < goneAfterMs).length;
}

/** Takes, returns and registers, all in one. */
export function visit(before: Bucket, visitor: Visit, now: number, limits: BudgetLimits) {
  const { returned, owed } = visitor;
  const available = availableIn(before, now, limits) + returned - owed;
  const { grant, last } = grantTo(before, visitor, now, Math.min(limits.burst, available), limits);
  const granted = grant.writes + grant.reads + grant.ahead;
  const taken = owed + granted;
  const own = before.replicas[visitor.replica];
  const replicas = register(before.replicas, visitor, grant, now);
  const bucket: Bucket = {
    id: before.id,
    level: Math.max(0, limits.burst - available) + granted,
    at: now,
    last,
    counts: count(before.counts, taken - returned, quarterOf(now)),
    replicas,
  };
  const isChanged =
    taken + returned > 0 || visitor.leaves === true || isNews(own, replicas[visitor.replica], now);
  return { bucket, grant, isChanged };
}

/**
 * Writes before reads, over all replicas, and the oldest write first. But where writes come all the time a read has its
 * turn after each, as long as no write would wait too long by that.
 */
function grantTo(bucket: Bucket, visitor: Visit, now: number, available: number, limits: BudgetLimits) {
  const others = writesOfOthers(bucket, visitor.replica, now);
  const own = visitor.writeWaitedMs === undefined ? [] : [now - visitor.writeWaitedMs];
  // Its next turn would come too late.
  const isUrgent = [...others, ...own].some((since) => now - since + 1 / limits.rate >= limits.maxWaitMs);
  const isOldest = !others.some((since) => own.some((ownSince) => isOtherWrite(since, ownSince)));
  const grant: Grant = { writes: 0, reads: 0, ahead: 0 };
  let { last } = bucket;
  let left = available + tiny;
  for (let taken = 0; taken < visitor.most && left >= 1; taken++, left--) {
    const next = nextOf(visitor, grant, {
      isReadsTurn: last === 'write' && !isUrgent,
      // The replica with an older one may be gone.
      mayWrite: isOldest || left >= 1 + leftLyingMs * limits.rate,
      mayRead: left >= others.length + 1,
    });
    if (next === undefined) break;
    grant[`${next}s`] += 1;
    last = next;
  }
  const room = Math.max(0, visitor.most - grant.writes - grant.reads);
  if (left - visitor.ahead >= limits.burst / 2) grant.ahead = Math.min(room, visitor.ahead);
  return { grant, last };
}

function nextOf(
  visitor: Visit,
  grant: Grant,
  { isReadsTurn, mayWrite, mayRead }: { isReadsTurn: boolean; mayWrite: boolean; mayRead: boolean },
): Bucket['last'] | undefined {
  const hasRead = grant.reads < visitor.reads;
  if (hasRead && isReadsTurn) return 'read';
  if (mayWrite && grant.writes < visitor.writes) return 'write';
  return hasRead && mayRead ? 'read' : undefined;
}

/** Since when writes of other replicas wait. */
function writesOfOthers(bucket: Bucket, replica: string, now: number): number[] {
  return Object.entries(bucket.replicas).flatMap(([id, { seenAt, writeSince }]) =>
    id !== replica && writeSince !== undefined && now - seenAt < writeMarkMs ? [writeSince] : [],
  );
}

function register(
  known: Bucket['replicas'],
  { replica, leaves, writes, writeWaitedMs }: Visit,
  grant: Grant,
  now: number,
): Bucket['replicas'] {
  const alive = Object.entries(known).filter(
    ([id, { seenAt }]) => id !== replica && now - seenAt < goneAfterMs,
  );
  if (leaves) return Object.fromEntries(alive);
  const isWaiting = grant.writes < writes && writeWaitedMs !== undefined;
  const own = { seenAt: now, ...(isWaiting && { writeSince: now - writeWaitedMs }) };
  return Object.fromEntries([...alive, [replica, own]]);
}

/** A visit that changes nothing else is kept only where it is needed: else many that wait would be in each other's way. */
function isNews(before: Registration | undefined, after: Registration | undefined, now: number): boolean {
  if (before === undefined || isOtherWrite(before.writeSince, after?.writeSince)) return true;
  return now - before.seenAt >= (after?.writeSince === undefined ? visitEveryMs / 2 : writeMarkMs / 2);
}

function count(counts: Bucket['counts'], calls: number, quarter: number): Bucket['counts'] {
  const kept = Object.entries(counts).filter(([number]) => Number(number) > quarter - quartersOfDay);
  const sums = new Map(kept);
  sums.set(String(quarter), (sums.get(String(quarter)) ?? 0) + calls);
  return Object.fromEntries(sums);
}

/** Whether the oldest write that waits is not the one that waited, by the times since when they do. */
export function isOtherWrite(before: number | undefined, after: number | undefined): boolean {
  if (before === undefined || after === undefined) return before !== after;
  return after - before > sameWriteMs;
}

/** Both buckets in one, where the store lost one and another was made: what either knows of is counted. */
export function merge(stored: Bucket, known: Bucket, now: number, { rate }: BudgetLimits): Bucket {
  const levelOf = ({ level, at }: Bucket) => Math.max(0, level - Math.max(0, now - at) * rate);
  const counts = new Map(Object.entries(stored.counts));
  for (const [quarter, calls] of Object.entries(known.counts))
    counts.set(quarter, Math.max(calls, counts.get(quarter) ?? 0));
  const level = Math.max(levelOf(stored), levelOf(known));
  return { ...stored, level, at: now, counts: Object.fromEntries(counts) };
}

/** Undefined for what is no bucket. */
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

function quarterOf(now: number): number {
  return Math.floor(now / quarterMs);
}
