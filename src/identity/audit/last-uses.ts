import { type RawBuilder, sql } from 'kysely';
import { WriteBehind } from '../../platform/base/batching.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, interval } from '../../platform/store/statements.ts';
import type { Attempt } from './attempt.ts';

/** When API keys were used last, by key, and by consumer the latest of all its keys; RFC 3339 UTC, to the minute. */
export type LastUses = ReadonlyMap<string, string>;

export interface KeyOwner {
  id: string;
  credentials: readonly { apiKey: string }[];
}

/** Keys that are remembered at most; only those of valid credentials are. Some 20 MB. */
const maxKeys = 100_000;
const batchSize = 1000;
const deletedAtOnce = 1000;

interface Use {
  api_key: string;
  consumer_id: string;
  used_at: string;
}

/**
 * When each API key was used last. A replica writes a key once a minute at most, off the path of requests; while the
 * database is unavailable it remembers and writes later.
 */
export class LastUseTable {
  readonly #database: Database;
  readonly #known = new Map<string, Use>();
  readonly #unstored: WriteBehind<Use>;

  constructor(database: Database) {
    this.#database = database;
    this.#unstored = new WriteBehind({ write: (uses) => this.#store(uses), batchSize, most: maxKeys });
  }

  note({ result, api_key, consumer_id, timestamp }: Attempt): void {
    if (result !== 'accepted' && result !== 'permission_denied') return;
    if (consumer_id === null) return;
    // A public key has no use of its own: it is one of the consumer.
    const name = api_key ?? consumer_id;
    const minute = timestamp.slice(0, 'yyyy-mm-ddThh:mm'.length);
    if (this.#known.get(name)?.used_at.startsWith(minute)) return;
    const use = { api_key: name, consumer_id, used_at: `${minute}:00.000Z` };
    this.#known.delete(name);
    this.#known.set(name, use);
    this.#unstored.add(name, use);
    forgetOldest(this.#known, maxKeys);
  }

  async of(consumers: readonly KeyOwner[]): Promise<LastUses> {
    const stored = await readUses(
      this.#database,
      consumers.map(({ id }) => id),
    ).catch(() => []);
    const names = consumers.flatMap(({ id, credentials }) => [
      id,
      ...credentials.map(({ apiKey }) => apiKey),
    ]);
    const known = names.flatMap((name) => this.#known.get(name) ?? []);
    return latestOf([...stored, ...known]);
  }

  /**
   * Forgets uses that are older than this many days, of consumers and keys that are gone. The latest of a consumer stays: it is that
   * of the consumer, too.
   */
  async deleteOld(days: number, consumers: readonly KeyOwner[], signal?: AbortSignal): Promise<void> {
    const names = consumers.flatMap(({ id, credentials }) => [id, ...credentials.map((pair) => pair.apiKey)]);
    const isThere = (name: RawBuilder<unknown>) => sql`${name} = any(${names}::text[])`;
    const statement = (limit: number) => sql`
      delete from credential_uses where api_key in (
        select api_key from credential_uses old
        where used_at < now() - ${interval(days * 86_400)} and not ${isThere(sql`api_key`)}
          and (not ${isThere(sql`consumer_id`)} or exists (
            select from credential_uses newer where newer.consumer_id = old.consumer_id
              and (newer.used_at, newer.api_key) > (old.used_at, old.api_key)))
        limit ${limit})`;
    await changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }

  async stop(): Promise<void> {
    await this.#unstored.stop().catch(() => undefined);
  }

  async #store(uses: readonly Use[]): Promise<void> {
    await sql`
      insert into credential_uses as known (api_key, consumer_id, used_at)
      select api_key, consumer_id, used_at
      from json_to_recordset(${JSON.stringify(uses)}::json) as noted (
        api_key text, consumer_id text, used_at timestamptz)
      on conflict (api_key) do update set used_at = excluded.used_at
      where known.used_at < excluded.used_at`.execute(this.#database.sql);
  }
}

/** Throws what the database does. */
export async function readLastUses(database: Database, consumerIds: readonly string[]): Promise<LastUses> {
  return latestOf(await readUses(database, consumerIds));
}

async function readUses(database: Database, consumerIds: readonly string[]): Promise<Use[]> {
  const { rows } = await sql<Omit<Use, 'used_at'> & { used_at: Date }>`
    select api_key, consumer_id, used_at from credential_uses
    where consumer_id = any(${consumerIds}::text[])`.execute(database.sql);
  return rows.map(({ used_at, ...row }) => ({ ...row, used_at: used_at.toISOString() }));
}

function latestOf(uses: readonly Use[]): LastUses {
  const latest = new Map<string, string>();
  for (const { api_key, consumer_id, used_at } of uses) {
    for (const name of [api_key, consumer_id]) {
      if (used_at > (latest.get(name) ?? '')) latest.set(name, used_at);
    }
  }
  return latest;
}
