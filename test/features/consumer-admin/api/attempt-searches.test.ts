import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { mostWaitingFor } from '../../../support/locked-statements.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';

const postgres = await usePostgres();

describe('searches of attempts', { skip: !postgres && 'no PostgreSQL' }, () => {
  const { url } = postgres as PostgresDatabase;
  const gateway = useGateway({ DATABASE_URL: url, CHANGES_POLL_SECONDS: '3600' });

  test('hold one connection for each consumer, however many it sends', async (t) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    t.after(() => client.end());
    const search = () => gateway.request('/v1/consumer/auth-attempts?address=198.51.100.7');
    assert.equal((await search()).status, 200);
    // Before a search all attempts so far are stored, which the lock would hold up.
    await eventually(async () => {
      const { rows } = await client.query(
        "select from authentication_attempts where endpoint like '%auth-attempts'",
      );
      assert.equal(rows.length, 1);
    });
    const statement = { table: 'authentication_attempts', text: 'select id, attempted_at' };
    assert.equal(await mostWaitingFor(url, { ...statement, send: search }), 1);
  });
});
