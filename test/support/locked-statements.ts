import type { Client } from 'pg';

/** How many statements with this text wait for a lock in the client's database. */
export async function waitingFor(client: Client, text: string): Promise<number> {
  // Within a transaction they would stay as they were first seen.
  await client.query('select pg_stat_clear_snapshot()');
  const { rows } = await client.query<{ count: number }>(
    `select count(*)::integer as count from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock' and position($1 in query) > 0`,
    [text],
  );
  return rows[0]?.count ?? 0;
}
