import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { changeInChunks, interval } from '../../platform/store/statements.ts';

const deletedAtOnce = 10_000;
const keeps = { keeps: 'remembers intents' };

export class IntentsTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** An intent keeps the arguments of its first call. `args`: what stands for them. Throws `store_unavailable`. */
  async note(consumerId: string, key: string, args: string): Promise<void> {
    const statement = sql`
      insert into named_intents as i (consumer_id, key, arguments, called_at)
      values (${consumerId}, ${key}, ${args}, now())
      on conflict (consumer_id, key) do update set called_at = now() where i.arguments = excluded.arguments`;
    await orUnavailable(() => statement.execute(this.#database.sql), keeps);
  }

  /** The key of the last intent with these arguments that was called within this many seconds. Throws `store_unavailable`. */
  async find(consumerId: string, args: string, seconds: number): Promise<string | undefined> {
    const statement = sql<{ key: string }>`
      select key::text from named_intents
      where consumer_id = ${consumerId} and arguments = ${args} and called_at > now() - ${interval(seconds)}
      order by called_at desc limit 1`;
    const { rows } = await orUnavailable(() => statement.execute(this.#database.sql), keeps);
    return rows[0]?.key;
  }

  /** Deletes those that were not called for this long. Returns how many. */
  deleteOlderThan(hours: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from named_intents where (consumer_id, key) in (
        select consumer_id, key from named_intents
        where called_at < now() - ${interval(hours * 3600)} limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}
