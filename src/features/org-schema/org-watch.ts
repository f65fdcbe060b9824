import type { OrgSchema } from '../../crm/org-schema.ts';
import { startCall } from '../../platform/base/call.ts';
import { now, randomUUID } from '../../platform/base/chance.ts';
import { type Polling, startPolling } from '../../platform/base/poll.ts';
import type { Log } from '../../platform/observability/log.ts';
import { type DescribedObjectsTable } from './described-objects-table.ts';
import type { OrgSchemaMetrics } from './metrics.ts';

/** The org is looked at once in so many seconds at most, by all replicas together. */
export const leastSeconds = 5;
/** Pauses after a look that failed, in milliseconds: the first, and the longest. */
const [firstPauseMs, longestPauseMs] = [2000, 15_000];
const callMs = 15_000;

interface OrgWatchOptions {
  schema: OrgSchema;
  table: DescribedObjectsTable;
  /** Whether this process may look at the org now, and no other does for `leastSeconds`. Throws what the database does. */
  lease: () => Promise<boolean>;
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
  /** When what this process goes by was described, by the database's clock. */
  #knownFrom: string | undefined;
  /** The org is to be looked at as soon as that is possible. */
  #isDue = true;
  #pauseMs = firstPauseMs;
  /** By `now()`. */
  #notBefore = 0;

  constructor(options: OrgWatchOptions) {
    this.#options = options;
  }

  /** Takes what was stored before. Throws what the database does. */
  async start(): Promise<void> {
    const { log, schema, table } = this.#options;
    await this.#load(await table.describedAt());
    this.#polling = startPolling({ what: 'changes of the CRM’s objects', check: () => this.#check(), log });
    schema.refused.add(() => this.lookSoon());
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

  async #check(): Promise<void> {
    const { table, lease } = this.#options;
    const describedAt = await table.describedAt();
    if (describedAt !== this.#knownFrom) await this.#load(describedAt);
    if (!this.#isDue || now() < this.#notBefore || !(await lease())) return;
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
      this.#options.log[level]({ err }, 'the objects of the CRM could not be described; it is tried again');
    }
  }

  async #look(): Promise<void> {
    const { schema, table } = this.#options;
    const call = { ...startCall(randomUUID(), undefined, callMs), background: 'poll' as const };
    const described = await schema.describe(call);
    this.#apply(described);
    await table.store(described);
    this.#knownFrom = await table.describedAt();
  }

  async #load(describedAt: string | undefined): Promise<void> {
    if (describedAt !== undefined) this.#apply(await this.#options.table.read());
    this.#knownFrom = describedAt;
  }

  #apply(described: Parameters<OrgSchema['apply']>[0]): void {
    const { schema, metrics } = this.#options;
    schema.apply(described);
    metrics.schemaFaults.set(schema.faults.length);
  }
}
