import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { DeliveriesTable } from '../../../src/features/partner-webhooks/deliveries-table.ts';
import { DeliveryQueue } from '../../../src/features/partner-webhooks/delivery-queue.ts';
import { maxEndpoints } from '../../../src/features/partner-webhooks/endpoint.ts';
import { migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { recordLog } from '../../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../../support/postgres.ts';
import { rowsReadIn } from '../../support/rows-read.ts';

const server = await startPostgres();
/** Deliveries that wait for one consumer, and events. Enough that reading all of them is the worse way. */
const waiting = 100_000;

describe('of many deliveries no statement reads more than it needs', {
  skip: !server && 'no PostgreSQL',
}, () => {
  const { url } = server as PostgresDatabase;
  const database = openPostgres({ url, log: recordLog().log });
  const queue = new DeliveryQueue(database);
  const deliveries = new DeliveriesTable(database);
  const busy = {
    viewer: 'con_busy',
    consumer_id: 'con_busy',
    all_records: ['quotes'],
    own_records: [],
    fields: {},
  };
  const other = {
    viewer: 'con_other',
    consumer_id: 'con_other',
    all_records: [],
    own_records: [],
    fields: {},
  };
  const consumers = { visibility: [busy, other], active: ['con_busy', 'con_other'] };
  const take = () => queue.take(consumers, { taken: new Map(), limit: 50, lastEvent: String(waiting) });

  before(async () => {
    await migrate(database);
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(`
      insert into webhook_endpoints (id, consumer_id, url, url_key, event_types, after_sequence)
      select 'whe_' || n, case when n <= ${maxEndpoints} then 'con_busy' else 'con_other' end, 'https://8.8.8.8/' || n,
        n, '[]', 0
      from generate_series(1, ${maxEndpoints + 1}) as n`);
    await client.query(`
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      select 'whe_' || 1 + n % ${maxEndpoints}, 'evt_' || n, 'quote.updated',
        'quote ' || case when n % ${maxEndpoints} = 0 then 'hot' else n::text end, 'pending', now()
      from generate_series(1, ${waiting}) as n`);
    await client.query(`
      insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
      values ('whe_${maxEndpoints + 1}', 'evt_other', 'ping', 'quote other', 'pending', now())`);
    await client.query(`
      insert into events (sequence, type, resource_type, resource_id, occurred_at, data, data_omitted,
        permission_resource, recorded_at)
      select n, 'quote.updated', 'quote', n, now(), '{}', false, 'quotes', now() - (${waiting} - n) * interval '1 second'
      from generate_series(1, ${waiting}) as n`);
    await client.query(`update event_counter set last_sequence = ${waiting}`);
    await client.query(`update delivery_position set sequence = ${waiting}`);
    await client.query('vacuum analyze deliveries, events');
    await client.end();
  });
  after(async () => {
    await database.close();
    await server?.stop();
  });

  const statements: Record<string, [run: () => Promise<unknown>, most: number]> = {
    'a look': [() => queue.pendingWork(), 10],
    // Of one endpoint, whose deliveries are of one record, 200 with what is before and in progress of that record.
    'a claim': [take, 2000],
    'a second claim': [take, 2000],
    'the ages': [() => queue.ages(consumers), 500],
    'a ping': [() => deliveries.addPing('whe_1'), 10],
    'a recovery': [() => deliveries.recover('whe_1', new Date(Date.now() - 60_000), busy), 1000],
    'a deletion of old ones': [() => deliveries.deleteOld(30), 10],
    'a deletion of those without an endpoint': [() => deliveries.deleteOrphans(), 500],
  };
  for (const [name, [run, most]] of Object.entries(statements))
    test(name, async (t) => {
      const before = await rowsReadIn(database, 'deliveries', 'events');
      const began = performance.now();
      await run();
      t.diagnostic(`${Math.round(performance.now() - began)} ms`);
      const read = (await rowsReadIn(database, 'deliveries', 'events')) - before;
      t.diagnostic(`${read} rows`);
      assert.ok(read <= most, `${read} rows`);
    });
});
