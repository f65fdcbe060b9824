import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { useGateway } from '../../support/gateway.ts';
import { waitingFor } from '../../support/locked-statements.ts';
import { type PostgresDatabase, usePostgres } from '../../support/postgres.ts';

const postgres = await usePostgres();

describe('searches of the feed', { skip: !postgres && 'no PostgreSQL' }, () => {
  const { url } = postgres as PostgresDatabase;
  const gateway = useGateway({ DATABASE_URL: url, CHANGES_POLL_SECONDS: '3600' });

  test('hold one connection for each consumer, however many it sends', async (t) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    t.after(() => client.end());
    await client.query('begin; lock table events in access exclusive mode');
    let answered = 0;
    const answers = Array.from({ length: 5 }, async () => {
      await gateway.request('/v1/events?type=quote.deleted');
      answered += 1;
    });
    let most = 0;
    // The first one is refused when it has waited for the lock for a second.
    while (answered === 0) most = Math.max(most, await waitingFor(client, 'with searched as'));
    await client.query('rollback');
    await Promise.all(answers);
    assert.equal(most, 1);
  });
});
