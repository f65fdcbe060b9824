import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { waitingFor } from '../../../support/locked-statements.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';

const postgres = await usePostgres();

describe('recoveries', { skip: !postgres && 'no PostgreSQL' }, () => {
  const { url } = postgres as PostgresDatabase;
  const gateway = useGateway({ DATABASE_URL: url, CHANGES_POLL_SECONDS: '3600' });

  test('hold one connection for each consumer, however many it sends', async (t) => {
    const body = { url: 'https://8.8.8.8/' };
    const made = await gateway.request('/v1/webhook-endpoints', { body });
    assert.equal(made.status, 201);
    const path = `/v1/webhook-endpoints/${((await made.json()) as { id: string }).id}`;
    const client = new Client({ connectionString: url });
    await client.connect();
    t.after(() => client.end());
    await client.query('begin; lock table deliveries in share mode');
    const since = { since: '2027-01-01T00:00:00Z' };
    const answers = Array.from({ length: 4 }, () => gateway.request(`${path}/recover`, { body: since }));
    const waiting = () => waitingFor(client, 'with chunk as');
    await eventually(async () => assert.ok((await waiting()) > 0));
    // As many answers as it takes for the others to come that far, too.
    for (let asked = 0; asked < 20; asked++) await gateway.request(path);
    const most = await waiting();
    await client.query('rollback');
    assert.equal(most, 1);
    for (const answer of await Promise.all(answers)) assert.equal(answer.status, 202);
  });
});
