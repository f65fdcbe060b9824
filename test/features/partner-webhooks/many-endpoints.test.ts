import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { sql } from 'kysely';
import { addEvents } from '../../../src/features/events/event-log.ts';
import { DeliveryQueue } from '../../../src/features/partner-webhooks/delivery-queue.ts';
import { migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../../support/postgres.ts';

const server = await startPostgres();
/** The last consumers have an endpoint that is enabled. To look at all of them for each would take several times the limit. */
const consumers = 40_000;
const endpoints = 8000;

describe('many consumers', { skip: !server && 'no PostgreSQL' }, () => {
  const { url } = server as PostgresDatabase;
  const database = openPostgres({ url, log: recordLog().log });
  after(async () => {
    await database.close();
    await server?.stop();
  });

  test('have their deliveries made and leased before the statements are ended', async () => {
    await migrate(database);
    await database.execute(`
      insert into webhook_endpoints (id, consumer_id, url, url_key, event_types, after_sequence)
      select 'whe_' || n, 'con_' || n, 'https://8.8.8.8/' || n, n, '[]', 0
      from generate_series(${consumers - endpoints + 1}, ${consumers}) as n`);
    const resource = { type: 'quote', id: 'one' };
    const occurredAt = '2027-03-02T16:05:12.000Z';
    await addEvents(database.sql, [
      { type: 'quote.updated', resource, occurredAt, data: '{}', permission: 'quotes' },
    ]);
    const ids = Array.from({ length: consumers }, (_, at) => `con_${at + 1}`);
    const sees = { all_records: ['quotes'], own_records: [], fields: {} };
    const visibility = ids.map((id) => ({ viewer: id, consumer_id: id, ...sees }));
    // The limit of jobs, so that a machine that is busy keeps to it.
    const queue = new DeliveryQueue({ ...database, sql: database.bulk });
    const slots = { taken: new Map(), limit: 50, lastEvent: '1' };
    // A machine that is busy may need more than one attempt, as the deliverer makes.
    const { leased } = await eventually(() => queue.take({ visibility, active: ids }, slots));
    assert.equal(leased.filter(({ allowed }) => allowed).length, 50);
    const { rows } = await sql`select count(*)::integer as made from deliveries`.execute(database.sql);
    assert.deepEqual(rows, [{ made: endpoints }]);
  });
});
