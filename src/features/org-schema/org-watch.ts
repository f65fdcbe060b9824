import type { OrgSchema } from '../../crm/org-schema.ts';
import { startCall } from '../../platform/base/call.ts';
import { now, randomUUID, setTimeout } from '../../platform/base/chance.ts';
import { inTime, type Polling, startPolling } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';
import type { OrgRefusal } from '../../records/org-fit.ts';
import { type DescribedObjectsTable } from './described-objects-table.ts';

export const orgSchemaMetrics = {
  schemaFaults: {
    type: 'gauge',
    name: 'handoff_crm_schema_faults',
    help: "Objects and fields in Salesforce that don't fit the gateway; crm.lacks in the health report names them.",
    aggregator: 'max',
  },
} as const satisfies MetricRows;

export type OrgSchemaMetrics = MetricsOf<typeof orgSchemaMetrics>;

/** The org is looked at once in this many seconds at most, by all replicas together; for the same refusal once in the longer time. */
export const leastSeconds = 5;
const sameRefusalSeconds = 300;
const ownRefusalSeconds = 60;
const changedLatelyMs = 3_600_000;
const lackingSeconds = 60;
/** Pauses after a look that failed, in milliseconds: the first, and the longest. */
const [firstPauseMs, longestPauseMs] = [2000, 15_000];
const callMs = 15_000;
const longestWaitMs = 7500;
/** While a look is due and not this process's turn, in milliseconds. */
const nextTryMs = 500;
const mostAsked = 500;

interface OrgWatchOptions {
  schema: OrgSchema;
  table: DescribedObjectsTable;
  /** Whether this process may look at the org now, and no other does for `leastSeconds`. Throws what the database does. */
  lease: () => Promise<boolean>;
  /**
   * Seconds since a process asked for a look because of this refusal, in the last this many; undefined where none did, and this
   * one does now. Throws what the database does.
   */
  askedBefore: (about: string, seconds: number) => Promise<number | undefined>;
  /** No process has asked for a look because of any refusal. Throws what the database does. */
  forgetAsked: () => Promise<void>;
  metrics: OrgSchemaMetrics;
  log: Log;
}

/**
 * Keeps what is known of the org's objects. One replica asks the CRM, and stores its answer; the others read it within
 * seconds.
 */
export class OrgWatch {
  readonly #options: OrgWatchOptions;
  #polling: Polling | undefined;
  /** When the look began that this process goes by, by the database's clock. */
  #knownFrom: string | undefined;
  #isDue = true;
  #pauseMs = firstPauseMs;
  #notBefore = 0;
  #changedAt = Number.NEGATIVE_INFINITY;
  readonly #asked = new Map<string, { at: number; look: Promise<boolean> }>();
  readonly #waiting = new Set<() => void>();

  constructor(options: OrgWatchOptions) {
    this.#options = options;
  }

  /** Takes what was stored before. Throws what the database does. */
  async start(): Promise<void> {
    const { log, schema, table } = this.#options;
    await this.#load((await table.described())?.at);
    this.#polling = startPolling({ what: 'changes of the CRM’s objects', check: () => this.#check(), log });
    schema.look = (refusal) => this.#lookFor(refusal);
    // After a repair a refusal that reads the same is another one.
    schema.repaired.add(() => this.#asked.clear());
    this.#polling.wake();
  }

  /** Looks at the org if nobody did in the last seconds. */
  readonly lookSoon = () => {
    this.#isDue = true;
    this.#polling?.wake();
  };

  async stop(): Promise<void> {
    await this.#polling?.stop();
  }

  async #lookFor({ about, waitMs = 0, isOwn = false }: OrgRefusal = {}): Promise<boolean> {
    if (about === undefined) {
      this.lookSoon();
      return false;
    }
    const seconds = isOwn ? this.#ownRefusalSeconds : sameRefusalSeconds;
    const asked = this.#asked.get(about);
    const isKnown = asked !== undefined && now() - asked.at < seconds * 1000;
    const { look } = isKnown ? asked : this.#ask(about, seconds);
    if (waitMs === 0) return false;
    // Nobody is refused twice for what the org was.
    return orAfter(isKnown ? Math.max(waitMs, longestWaitMs) : waitMs, look);
  }

  get #ownRefusalSeconds(): number {
    return now() - this.#changedAt < changedLatelyMs ? ownRefusalSeconds : sameRefusalSeconds;
  }

  #ask(about: string, seconds: number) {
    const look = this.#lookOnce(about, seconds).catch(() => false);
    const asked = { at: now(), look };
    // The oldest go first: others may ask for a look because of them once more.
    for (const first of this.#asked.keys()) {
      if (this.#asked.size < mostAsked) break;
      this.#asked.delete(first);
    }
    this.#asked.delete(about);
    this.#asked.set(about, asked);
    // A later request is not told that the org was looked at because of it.
    const over = Promise.resolve(false);
    void look.then(() => (asked.look = over));
    return asked;
  }

  /** True once the org was described because of this refusal, here or by another replica. Throws what the database does. */
  async #lookOnce(about: string, seconds: number): Promise<boolean> {
    const { promise: described, resolve } = Promise.withResolvers<boolean>();
    const tell = () => resolve(true);
    this.#waiting.add(tell);
    try {
      const secondsAgo = await this.#options.askedBefore(about, seconds);
      // That look is over; its result may not have been read yet.
      if (secondsAgo !== undefined && (await this.#takeStored()).secondsAgo <= secondsAgo) return false;
      if (secondsAgo === undefined) this.#isDue = true;
      this.#polling?.wake();
      return await orAfter(longestWaitMs, described);
    } finally {
      this.#waiting.delete(tell);
    }
  }

  async #takeStored(): Promise<{ secondsAgo: number }> {
    const described = await this.#options.table.described();
    if (described?.at !== this.#knownFrom) await this.#load(described?.at);
    return described ?? { secondsAgo: Number.POSITIVE_INFINITY };
  }

  async #check(): Promise<void> {
    const { schema, lease } = this.#options;
    const { secondsAgo } = await this.#takeStored();
    const isDue = this.#isDue || (schema.faults.length > 0 && secondsAgo >= lackingSeconds);
    if (now() < this.#notBefore || !(isDue || this.#waiting.size > 0)) return;
    if (isDue && (await lease())) await this.#lookNow();
    else setTimeout(() => this.#polling?.wake(), nextTryMs);
  }

  async #lookNow(): Promise<void> {
    this.#isDue = false;
    try {
      await this.#look();
      this.#pauseMs = firstPauseMs;
    } catch (err) {
      this.#isDue = true;
      this.#notBefore = now() + this.#pauseMs;
      const longer = Math.min(longestPauseMs, 2 * this.#pauseMs);
      // Once, after some failures in a row: one alone is nothing that somebody has to look at.
      const level = longer === longestPauseMs && this.#pauseMs < longer ? 'warn' : 'debug';
      this.#pauseMs = longer;
      this.#options.log[level]({ err }, "couldn't describe Salesforce's objects; will try again");
    }
  }

  async #look(): Promise<void> {
    const { schema, table } = this.#options;
    // Its failure is no reason to refuse requests: it is asked again anyway.
    const call = { ...startCall(randomUUID(), undefined, callMs), background: 'alone' as const };
    const at = await table.time();
    await table.store(await schema.describe(call), at);
    // The stored look counts: another replica's may have begun later, and ended earlier.
    const isRepaired = await this.#load((await table.described())?.at);
    if (isRepaired) await this.#options.forgetAsked();
  }

  async #load(describedAt: string | undefined): Promise<boolean> {
    const isRepaired = describedAt !== undefined && this.#apply(await this.#options.table.read());
    this.#knownFrom = describedAt;
    return isRepaired;
  }

  #apply(described: Parameters<OrgSchema['apply']>[0]): boolean {
    const { schema, metrics } = this.#options;
    const before = schema.version;
    const isRepaired = schema.apply(described);
    // The first description is no change.
    if (before > 0 && schema.version !== before) this.#changedAt = now();
    metrics.schemaFaults.set(schema.faults.length);
    for (const tell of this.#waiting) tell();
    return isRepaired;
  }
}

/** False after this many milliseconds. */
async function orAfter(ms: number, work: Promise<boolean>): Promise<boolean> {
  return inTime(work, ms, () => new Error('too late')).catch(() => false);
}
