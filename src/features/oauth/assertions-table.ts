import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { changeInChunks } from '../../platform/store/statements.ts';

const deletedAtOnce = 10_000;

export class AssertionsTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Notes the id; false where it is there already. Throws `Problem` store_unavailable. */
  async useOnce(consumerId: string, jti: string, expiresAt: Date): Promise<boolean> {
    // A hash has one length, and no character that the database does not take.
    const digest = createHash('sha256').update(jti).digest('base64url');
    const { numAffectedRows } = await orUnavailable(
      () =>
        sql`
        insert into used_assertions (consumer_id, jti_hash, expires_at)
        values (${consumerId}, ${digest}, ${expiresAt}) on conflict do nothing`.execute(this.#database.sql),
      { keeps: 'notes which assertions were used' },
    );
    return numAffectedRows === 1n;
  }

  deleteExpired(signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from used_assertions where (consumer_id, jti_hash) in (
        select consumer_id, jti_hash from used_assertions where expires_at < now() - interval '1 hour' limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}
