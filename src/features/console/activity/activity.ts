import { clearTimeout, randomFraction, setTimeout, wallMs } from '../../../platform/base/chance.ts';
import { formatTimestamp } from '../../../platform/base/moment.ts';
import type { SharedCache } from '../../../platform/cache/shared-cache.ts';
import type { Metrics } from '../../../platform/observability/metrics.ts';
import { difference, nothing, type Point, quantile, readTotals, sum } from './point.ts';

export const intervalSeconds = 10;
const intervalMs = intervalSeconds * 1000;
const shown = 360;
/** In the cache a point lives a little longer than it is shown. */
const ttlMs = (shown + 6) * intervalMs;
const growing = 6;
const maxTries = 20;

export interface Series {
  name: string;
  unit: string;
  /** RFC 3339 of the beginning of an interval, and what was counted in it. An interval without a value is left out. */
  points: [time: string, value: number][];
}

export interface ActivityOptions {
  cache: SharedCache;
  environment: string;
  metrics: Metrics;
  /** Milliseconds since 1970. */
  clock?: () => number;
}

export class Activity {
  readonly #options: ActivityOptions;
  readonly #clock: () => number;
  readonly #own = new Map<number, { point: Point; isShared: boolean }>();
  readonly #read = new Map<number, Point | undefined>();
  /** The last reading. The metrics begin with this process: what came before the first is nothing. */
  #before: Promise<Point> = Promise.resolve(nothing);
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ActivityOptions) {
    this.#options = options;
    this.#clock = options.clock ?? wallMs;
  }

  start(): void {
    // Not all replicas at once.
    const wait = intervalMs - (this.#clock() % intervalMs) + randomFraction() * 500;
    this.#timer = setTimeout(() => {
      void this.record();
      this.start();
    }, wait).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  async record(): Promise<void> {
    const number = Math.floor(this.#clock() / intervalMs) - 1;
    const before = this.#before;
    const now = readTotals(this.#options.metrics);
    this.#before = now;
    const point = difference(await now, await before);
    const known = this.#own.get(number);
    this.#own.set(number, known ? { ...known, point: sum(known.point, point) } : { point, isShared: false });
    forgetBefore(this.#own, number - shown);
    // A replica that was cut off from the cache shares late.
    if (number % growing === 0) this.#read.clear();
    await this.#share(number).catch(() => {
      // The cache is unavailable; what is not shared yet is shared later.
    });
  }

  /** Sums of all replicas for the last hour; while the cache is unavailable, those of this one. */
  async series(): Promise<Series[]> {
    const last = Math.floor(this.#clock() / intervalMs);
    const numbers = Array.from({ length: shown }, (_, i) => last - shown + i);
    const points = await Promise.all(numbers.map((number) => this.#point(number, last))).catch(() =>
      numbers.map((number) => this.#own.get(number)?.point),
    );
    return seriesOf(numbers, points);
  }

  async #share(last: number): Promise<void> {
    for (const [number, entry] of this.#own) {
      if (entry.isShared || number > last) continue;
      entry.isShared = true;
      try {
        await this.#add(number, entry.point);
      } catch (error) {
        entry.isShared = false;
        throw error;
      }
    }
  }

  async #add(number: number, point: Point): Promise<void> {
    const { cache } = this.#options;
    for (let tries = 0; tries < maxTries; tries++) {
      const text = await cache.get(this.#key(number));
      const both = text === undefined ? point : sum(readPoint(text), point);
      if (await cache.setIfEqual(this.#key(number), text, JSON.stringify(both), ttlMs)) return;
    }
  }

  async #point(number: number, last: number): Promise<Point | undefined> {
    if (this.#read.has(number)) return this.#read.get(number);
    const text = await this.#options.cache.get(this.#key(number));
    const point = text === undefined ? undefined : readPoint(text);
    if (number < last - growing) this.#read.set(number, point);
    return point;
  }

  #key(number: number): string {
    return `activity:${this.#options.environment}:${number}`;
  }
}

/** A replica of an earlier version counts less. */
function readPoint(text: string): Point {
  return { ...nothing, ...(JSON.parse(text) as Partial<Point>) };
}

function forgetBefore(map: Map<number, unknown>, first: number): void {
  for (const number of map.keys()) if (number < first) map.delete(number);
}

/** `end`: seconds since 1970 when the interval ended. */
type ValueOf = (point: Point, end: number) => number | undefined;

const kinds: [name: string, unit: string, value: ValueOf][] = [
  ['requests', 'requests', ({ requests }) => requests],
  ['errors', 'requests', ({ errors }) => errors],
  ['refusals', 'requests', ({ refusals }) => refusals],
  ['latency_p50', 'ms', (point) => quantile(point, 0.5)],
  ['latency_p99', 'ms', (point) => quantile(point, 0.99)],
  ['crm_calls', 'calls', ({ crmCalls }) => crmCalls],
  ['crm_quota_used', 'calls', ({ quotaUsed, quotaLimit }) => (quotaLimit > 0 ? quotaUsed : undefined)],
  ['handoffs_waiting', 'hand-offs', ({ waiting }) => waiting],
  ['webhooks_delivered', 'webhooks', ({ delivered }) => delivered],
  ['webhooks_failed', 'attempts', ({ undelivered }) => undelivered],
  ['webhooks_oldest', 's', ({ oldestDelivery }) => oldestDelivery],
  [
    'reader_age',
    's',
    ({ changesReadAt }, end) => (changesReadAt > 0 ? Math.max(0, end - changesReadAt) : undefined),
  ],
  ['crm_quota_limit', 'calls', ({ quotaLimit }) => (quotaLimit > 0 ? quotaLimit : undefined)],
];

function seriesOf(numbers: readonly number[], points: readonly (Point | undefined)[]): Series[] {
  return kinds.map(([name, unit, value]) => ({
    name,
    unit,
    points: points.flatMap((point, i): Series['points'] => {
      const number = numbers[i] ?? 0;
      const found = point && value(point, (number + 1) * intervalSeconds);
      if (found === undefined) return [];
      return [[formatTimestamp(number * intervalMs), Math.round(found * 1000) / 1000]];
    }),
  }));
}
