import { sql } from 'kysely';
import type { Database } from '../../src/platform/store/database.ts';

/**
 * Rows of these tables and of their indexes that were read so far, in PostgreSQL. Both kinds of connections report what they
 * did.
 */
export async function rowsReadIn(database: Database, ...tables: string[]): Promise<number> {
  for (const connection of [database.sql, database.bulk])
    await sql`select pg_stat_force_next_flush()`.execute(connection);
  const { rows } = await sql<{ read: number }>`
    select coalesce(sum(seq_tup_read
      + (select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes i where i.relid = t.relid)), 0)::float8 as read
    from pg_stat_user_tables t where relname = any(${tables}::text[])`.execute(database.sql);
  return rows[0]?.read ?? 0;
}
