import { sql } from 'kysely';
import { WriteBehind } from '../../platform/base/batching.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { siteOf } from '../../platform/base/networks.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, interval } from '../../platform/store/statements.ts';
import type { Attempt } from './attempt.ts';

/** Consumers whose networks are remembered in memory, and networks of each; some 30 MB. */
const maxConsumers = 100_000;
const maxNetworks = 8;
const maxWaiting = 10_000;
const batchSize = 1000;
const deletedAtOnce = 1000;

interface Use {
  consumer_id: string;
  network: string;
  address: string;
  day: string;
}

export interface UsedNetworksOptions {
  database: Database;
  log: Log;
  metrics: Pick<Metrics, 'consumerNewNetworks'>;
}

/**
 * Logs when a consumer is used from a network that it was not used from before: its key may be in other hands. The
 * database decides, so that all replicas together log it once, and a restart forgets nothing. A replica asks it once a day
 * for each network, off the path of requests; while it is unavailable, later. The first network of a consumer is not logged.
 */
export class UsedNetworks {
  readonly #options: UsedNetworksOptions;
  readonly #seen = new Map<string, { day: string; address: string; networks: string[] }>();
  readonly #waiting: WriteBehind<Use>;

  constructor(options: UsedNetworksOptions) {
    this.#options = options;
    this.#waiting = new WriteBehind({ write: (uses) => this.#storeAll(uses), batchSize });
  }

  note({ result, consumer_id, address, timestamp }: Attempt): void {
    if (result !== 'accepted' && result !== 'permission_denied') return;
    if (consumer_id === null || address === null) return;
    const seen = this.#seen.get(consumer_id);
    if (seen !== undefined && seen.address === address && timestamp.startsWith(seen.day)) return;
    const day = timestamp.slice(0, 'yyyy-mm-dd'.length);
    this.#noteUse({ consumer_id, address, network: siteOf(address), day });
  }

  #noteUse(use: Use): void {
    const { consumer_id, network, address, day } = use;
    const known = this.#seen.get(consumer_id);
    const networks = known?.day === day ? known.networks : [];
    if (!networks.includes(network)) {
      if (this.#waiting.size >= maxWaiting) return;
      this.#waiting.add(keyOf(use), use);
      networks.push(network);
      if (networks.length > maxNetworks) networks.shift();
    }
    this.#seen.set(consumer_id, { day, address, networks });
    forgetOldest(this.#seen, maxConsumers);
  }

  async #storeAll(uses: readonly Use[]): Promise<void> {
    const used = new Map(uses.map((use) => [keyOf(use), use]));
    for (const found of await this.#store(uses)) this.#report(used.get(keyOf(found)));
  }

  async #store(uses: readonly Use[]): Promise<Pick<Use, 'consumer_id' | 'network'>[]> {
    const { rows } = await sql<Pick<Use, 'consumer_id' | 'network'>>`
      with stored as (
        insert into consumer_networks as known (consumer_id, network, last_used)
        select consumer_id, network, day from json_to_recordset(${JSON.stringify(uses)}::json) as used (
          consumer_id text, network text, day date)
        on conflict (consumer_id, network) do update set last_used = greatest(known.last_used, excluded.last_used)
        returning consumer_id, network, xmax = 0 as is_new
      )
      select consumer_id, network from stored
      where is_new and exists (select from consumer_networks known where known.consumer_id = stored.consumer_id)`.execute(
      this.#options.database.sql,
    );
    return rows;
  }

  #report(use: Use | undefined): void {
    if (use === undefined) return;
    const { log, metrics } = this.#options;
    const { consumer_id, network, address } = use;
    metrics.consumerNewNetworks.inc();
    log.warn({ consumer_id, network, address }, 'a consumer was used from a network that is new to it');
  }

  /**
   * Forgets networks that were not used for this many days; of each consumer the last one stays, so that a key which nobody
   * has used for long is reported.
   */
  async deleteOld(days: number, signal?: AbortSignal): Promise<void> {
    const statement = (limit: number) => sql`
      delete from consumer_networks where (consumer_id, network) in (
        select consumer_id, network from consumer_networks old
        where last_used < now() - ${interval(days * 86_400)} and exists (
          select from consumer_networks newer where newer.consumer_id = old.consumer_id
            and (newer.last_used, newer.network) > (old.last_used, old.network))
        limit ${limit})`;
    await changeInChunks(this.#options.database.bulk, deletedAtOnce, statement, signal);
  }

  async stop(): Promise<void> {
    await this.#waiting.stop().catch(() => undefined);
  }
}

function keyOf({ consumer_id, network }: Pick<Use, 'consumer_id' | 'network'>): string {
  return `${consumer_id} ${network}`;
}
