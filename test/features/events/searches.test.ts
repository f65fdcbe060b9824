import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { useGateway } from '../../support/gateway.ts';
import { mostWaitingFor } from '../../support/locked-statements.ts';
import { type PostgresDatabase, usePostgres } from '../../support/postgres.ts';

const postgres = await usePostgres();

describe('searches of the feed', { skip: !postgres && 'no PostgreSQL' }, () => {
  const { url } = postgres as PostgresDatabase;
  const gateway = useGateway({ DATABASE_URL: url, CHANGES_POLL_SECONDS: '3600' });

  test('hold one connection for each consumer, however many it sends', async () => {
    const send = () => gateway.request('/v1/events?type=quote.deleted');
    assert.equal(await mostWaitingFor(url, { table: 'events', text: 'with searched as', send }), 1);
  });
});
