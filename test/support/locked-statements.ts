import { Client } from 'pg';

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

/** How many of five requests at once have a statement with this text wait, while nobody may read the table. */
export async function mostWaitingFor(
  url: string,
  { table, text, send }: { table: string; text: string; send: () => Promise<unknown> },
): Promise<number> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`begin; lock table ${table} in access exclusive mode`);
    let answered = 0;
    const answers = Array.from({ length: 5 }, async () => {
      await send();
      answered += 1;
    });
    let most = 0;
    // The first one is refused when it has waited for the lock for a second.
    while (answered === 0) most = Math.max(most, await waitingFor(client, text));
    await client.query('rollback');
    await Promise.all(answers);
    return most;
  } finally {
    await client.end();
  }
}
