import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, afterEach, before, describe, test } from 'node:test';
import { viewOfEndpoint } from '../../../src/features/partner-webhooks/endpoint.ts';
import { databaseKinds } from '../../support/databases.ts';
import { consumerOf, type Harness, reader, startHarness } from './harness.ts';

for (const kind of Object.keys(databaseKinds)) {
  describe(`deliveries on ${kind}`, () => {
    let harness: Harness | undefined;
    const replicas = kind === 'PGlite' ? 1 : 2;
    before(async () => {
      harness = await startHarness(kind, { replicas });
    });
    after(() => harness?.stop());
    afterEach(async () => {
      if (!harness) return;
      // Each test begins without endpoints; late results of one before it meet no row.
      await harness.execute('delete from webhook_endpoints');
      await harness.execute('delete from deliveries');
      harness.receiver.received.length = 0;
      harness.receiver.answer = (response) => response.writeHead(204).end();
      harness.consumers.clear();
      // A replica that finds it gone now would pass over events of the next test.
      harness.consumers.set(reader.id, reader);
      harness.notLoaded.clear();
    });

    const on = (name: string, run: (harness: Harness) => Promise<void>): void => {
      void test(name, async (t) => {
        if (!harness) return t.skip('there is no PostgreSQL');
        await run(harness);
      });
    };
    const typesAt = ({ receiver }: Harness, path: string) =>
      receiver.received.filter((got) => got.path === path).map(({ event }) => event.type);

    on('go to the endpoints that ask for the type, digit for digit', async (harness) => {
      await harness.newEndpoint('/all');
      await harness.newEndpoint('/some', { event_types: ['quote.updated', 'booking.*'] });
      await harness.newEndpoint('/other', { event_types: ['booking.*', 'member.*'] });
      const data = '{"net":612.40,"n":9007199254740993,"text":"\\u0000 \\ud800"}';
      await harness.addEvents({ type: 'quote.created' }, { type: 'quote.updated', data });
      const received = await harness.receiver.until(3);
      assert.deepEqual(typesAt(harness, '/all').toSorted(), ['quote.created', 'quote.updated']);
      assert.deepEqual(typesAt(harness, '/some'), ['quote.updated']);
      const { body } = received.find(({ path }) => path === '/some') ?? { body: '' };
      assert.ok(body.includes(`,"data":${data},"timestamp":"2027-03-02T16:05:12.000Z"}`), body);
      assert.match(
        body,
        /^\{"id":"evt_[a-z0-9]+","type":"quote.updated","occurred_at":"2027-03-02T16:05:12.000Z",/,
      );
    });

    on('say where data was left out', async (harness) => {
      await harness.newEndpoint('/');
      await harness.addEvents({ data: JSON.stringify({ text: 'x'.repeat(300 * 1024) }) });
      const [got] = await harness.receiver.until(1);
      assert.equal((got as unknown as { event: { data_omitted?: boolean } }).event.data_omitted, true);
    });

    on('go to consumers that may see the event when it is sent', async (harness) => {
      const own = consumerOf('con_own', { resource: 'quotes', actions: ['read'], records: 'own' });
      const writer = consumerOf('con_writer', { resource: 'quotes', actions: ['write'] });
      await harness.newEndpoint('/reader', { event_types: [] });
      await harness.newEndpoint('/own', {}, own);
      await harness.newEndpoint('/writer', {}, writer);
      await harness.addEvents(
        { type: 'quote.created', consumerId: own.id },
        { type: 'quote.updated', consumerId: 'con_other' },
        { type: 'quote.deleted' },
        { type: 'booking.created', permission: 'bookings' },
        { type: 'webhook_endpoint.disabled', permission: 'webhooks', privateTo: own.id },
        { type: 'webhook_endpoint.disabled', permission: 'webhooks', privateTo: reader.id },
      );
      await harness.receiver.until(5);
      await harness.until(`select 1 from delivery_position, event_counter where sequence = last_sequence`);
      assert.deepEqual(typesAt(harness, '/reader').toSorted(), [
        ...['quote.created', 'quote.deleted', 'quote.updated', 'webhook_endpoint.disabled'],
      ]);
      assert.deepEqual(typesAt(harness, '/own'), ['quote.created']);
      assert.deepEqual(typesAt(harness, '/writer'), []);
    });

    on('go to an endpoint that was made after the sender had looked', async (harness) => {
      await harness.newEndpoint('/before');
      const isAdded = Promise.withResolvers<void>();
      const isDone = Promise.withResolvers<void>();
      harness.afterLook(async () => {
        harness.afterLook(async () => {
          // Another replica may look while it is being added.
          await isAdded.promise;
          await harness.newEndpoint('/new');
          await harness.addEvents({ type: 'quote.updated' });
          isDone.resolve();
        });
        await harness.addEvents({ type: 'quote.created' });
        isAdded.resolve();
      });
      await isDone.promise;
      await harness.receiver.until(3);
      assert.deepEqual(typesAt(harness, '/new'), ['quote.updated']);
    });

    on('have the fields that the permission names, and come where one of them changed', async (harness) => {
      const fields = ['name', 'status'];
      const named = consumerOf('con_named', { resource: 'quotes', actions: ['read'], fields });
      const hidden = consumerOf('con_hidden', { resource: 'quotes', actions: ['read'], fields: [] });
      await harness.newEndpoint('/named', {}, named);
      await harness.newEndpoint('/hidden', {}, hidden);
      const data = '{"id":"one","name":"a","source":"secret","details":{"net":1.10},"status":"b"}';
      await harness.addEvents(
        { type: 'quote.created', data },
        { data, changed: ['source', 'details'] },
        { data, changed: ['source', 'status'] },
        {
          type: 'handoff.created',
          resource: { type: 'handoff', id: 'h' },
          data: '{"external_id":"h","problem":{}}',
        },
      );
      await harness.receiver.until(5);
      await harness.until(`select 1 from delivery_position, event_counter where sequence = last_sequence`);
      await harness.until(`select 1 where not exists (select from deliveries where status = 'pending')`);
      const typed = (path: string) => typesAt(harness, path).toSorted();
      assert.deepEqual(typed('/named'), ['handoff.created', 'quote.created', 'quote.updated']);
      assert.deepEqual(typed('/hidden'), ['handoff.created', 'quote.created']);
      const shown = (path: string) =>
        harness.receiver.received
          .filter((got) => got.path === path)
          .map(({ event }) => JSON.stringify(event['data']));
      assert.deepEqual(
        new Set(shown('/named')),
        new Set(['{"id":"one","name":"a","status":"b"}', '{"id":"h"}']),
      );
      assert.deepEqual(new Set(shown('/hidden')), new Set(['{"id":"one"}', '{"id":"h"}']));
      // Sent again after the permission has become narrower.
      const [first] = await harness.execute<{ id: string; endpoint_id: string }>(
        `select d.id, endpoint_id from deliveries d join webhook_endpoints w on w.id = endpoint_id
         where consumer_id = 'con_named' and event_type = 'quote.created'`,
      );
      harness.consumers.set(named.id, { ...named, permissions: hidden.permissions });
      harness.receiver.received.length = 0;
      await harness.administration.resend(named, first?.endpoint_id ?? '', first?.id ?? '');
      await harness.receiver.until(1);
      assert.deepEqual(shown('/named'), ['{"id":"one"}']);
    });

    on('are dropped where the consumer may not see the event any more', async (harness) => {
      harness.receiver.answer = (response) => response.writeHead(503).end();
      await harness.newEndpoint('/');
      await harness.addEvents({});
      await harness.until(`select 1 from deliveries where tries = 1`);
      harness.consumers.set(reader.id, { ...reader, permissions: [] });
      await harness.execute(`update deliveries set next_attempt_at = now()`);
      const query = `select attempts -> 1 ->> 'error' as error from deliveries where status = 'failed'`;
      assert.equal((await harness.until(query))['error'], 'not_permitted');
      assert.equal(harness.receiver.received.length, 1);
    });

    on('wait while their consumer is disabled', async (harness) => {
      await harness.newEndpoint('/');
      harness.consumers.set(reader.id, { ...reader, enabled: false });
      await harness.addEvents({});
      await harness.until(`select 1 from deliveries where status = 'pending' and tries = 0`);
      assert.equal(harness.receiver.received.length, 0);
      harness.consumers.set(reader.id, reader);
      await harness.receiver.until(1);
    });

    on('that wait are kept where an endpoint that is enabled is enabled again', async (harness) => {
      harness.receiver.answer = (response) => response.writeHead(503).end();
      const id = await harness.newEndpoint('/');
      await harness.addEvents({});
      await harness.until(`select 1 from deliveries where tries = 1`);
      await harness.administration.change(reader, id, { enabled: true }, () => {});
      assert.deepEqual(await harness.execute('select status from deliveries'), [{ status: 'pending' }]);
    });

    on('of many events to many endpoints are made in chunks', async (harness) => {
      const id = await harness.newEndpoint('/');
      harness.consumers.set(reader.id, { ...reader, enabled: false });
      await harness.execute(`
        insert into webhook_endpoints (consumer_id, url, url_key, event_types, after_sequence)
        select consumer_id, url, url_key || number, event_types, after_sequence
        from webhook_endpoints, generate_series(1, 19) as number where id = '${id}'`);
      await harness.addEvents(...Array.from({ length: 500 }, () => ({})));
      await harness.until(`select 1 where 10000 = (select count(*) from deliveries)`);
      const [most] = await harness.execute<{ rows: number }>(`
        select max(count)::integer as rows
        from (select count(*) from deliveries group by created_at) as statements`);
      assert.ok((most?.rows ?? 0) <= 5000, JSON.stringify(most));
    });

    on('are made, too, while the consumer of an endpoint is not loaded', async (harness) => {
      await harness.newEndpoint('/', { event_types: ['quote.*'] });
      harness.notLoaded.add(reader.id);
      await harness.addEvents({}, { type: 'quote.created', permission: 'bookings' });
      await harness.addEvents({ type: 'quote.deleted', privateTo: 'con_other' });
      await harness.until(`select 1 from delivery_position, event_counter where sequence = last_sequence`);
      assert.equal(harness.receiver.received.length, 0);
      harness.notLoaded.delete(reader.id);
      await harness.until(`select 1 from deliveries where status = 'delivered'`);
      // What it may not read leaves no trace.
      await harness.until(`select 1 where 1 = (select count(*) from deliveries)`);
      assert.deepEqual(typesAt(harness, '/'), ['quote.updated']);
    });

    on('do not wait for the consumer of another endpoint that is looked for', async (harness) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      harness.looking.until = promise;
      const other = consumerOf('con_other', { resource: 'webhooks', actions: ['write'] });
      harness.notLoaded.add(other.id);
      await harness.newEndpoint('/other', {}, other);
      await harness.newEndpoint('/');
      await harness.addEvents({});
      await harness.receiver.until(1);
      resolve();
    });

    on('of one record go one at a time, in their order', async (harness) => {
      const open: ServerResponse[] = [];
      harness.receiver.answer = (response) => open.push(response);
      await harness.newEndpoint('/');
      const resource = { type: 'quote', id: 'one' };
      await harness.addEvents({ type: 'quote.created', resource }, { type: 'quote.updated', resource }, {});
      await harness.receiver.until(2);
      assert.deepEqual(typesAt(harness, '/').toSorted(), ['quote.created', 'quote.updated']);
      const ids = harness.receiver.received.map(({ event }) => event.resource.id);
      assert.equal(ids.filter((id) => id === 'one').length, 1);
      harness.receiver.answer = (response) => response.writeHead(204).end();
      for (const response of open) response.writeHead(204).end();
      await harness.receiver.until(3);
      const ofOne = harness.receiver.received.filter(({ event }) => event.resource.id === 'one');
      assert.deepEqual(
        ofOne.map(({ event }) => event.type),
        ['quote.created', 'quote.updated'],
      );
    });

    void test('to an endpoint that hangs hold up no other, and are ten at most', async (t) => {
      // The others go on where the machine stands still for longer than this.
      const own = await startHarness(kind, { replicas, timeoutMs: 1500 });
      if (!own) return t.skip('there is no PostgreSQL');
      t.after(() => own.stop());
      let hanging = 0;
      let most = 0;
      own.receiver.answer = (response, { path }) => {
        if (path !== '/hangs') {
          response.writeHead(204).end();
          return;
        }
        most = Math.max(most, ++hanging);
        response.on('close', () => hanging--);
      };
      await own.newEndpoint('/hangs');
      await own.newEndpoint('/fast');
      await own.addEvents(...Array.from({ length: 60 }, () => ({})));
      await own.until(
        `select 1 where 60 = (select count(*) from deliveries d join webhook_endpoints w on w.id = endpoint_id
          where url like '%/fast' and status = 'delivered')`,
      );
      const waiting = await own.execute(
        `select 1 from deliveries d join webhook_endpoints w on w.id = endpoint_id
          where url like '%/hangs' and status = 'pending'`,
      );
      assert.equal(waiting.length, 60);
      await own.until(`select 1 from deliveries where attempts -> 0 ->> 'error' = 'timeout'`);
      assert.ok(most > 2 && most <= 10, `${most} at once`);
    });

    on('are repeated when they fail, and not before Retry-After', async (harness) => {
      harness.receiver.answer = (response, { event }) =>
        response.writeHead(429, event.type === 'quote.created' ? {} : { 'retry-after': '600' }).end();
      await harness.newEndpoint('/');
      await harness.addEvents({ type: 'quote.created' }, { type: 'quote.updated' });
      await harness.until(`select 1 where 2 = (select count(*) from deliveries where tries = 1)`);
      const rows = await harness.execute<{ seconds: number; attempts: { error: string; status: number }[] }>(
        `select extract(epoch from next_attempt_at - now())::double precision as seconds, attempts
          from deliveries order by event_type`,
      );
      const [usual, later] = rows.map(({ seconds }) => seconds);
      assert.ok(usual !== undefined && usual <= 6 && later !== undefined && later > 590 && later <= 600);
      assert.equal(rows[0]?.attempts[0]?.error, 'http_429');
      harness.receiver.answer = (response) => response.writeHead(204).end();
      await harness.execute(
        `update deliveries set next_attempt_at = now() where event_type = 'quote.updated'`,
      );
      await harness.until(
        `select 1 from deliveries where event_type = 'quote.updated' and status = 'delivered'`,
      );
      const [endpoint] = await harness.execute(`select failing_since from webhook_endpoints`);
      assert.equal(endpoint?.['failing_since'], null);
    });

    on('are given up after the last attempt', async (harness) => {
      harness.receiver.answer = (response) => response.writeHead(500).end();
      await harness.newEndpoint('/');
      await harness.addEvents({});
      await harness.until(`select 1 from deliveries where tries = 1`);
      await harness.execute(`update deliveries set tries = 10, next_attempt_at = now()`);
      await harness.until(`select 1 from deliveries where tries = 11 and status = 'failed'`);
      assert.match(
        await harness.metrics.registry.metrics(),
        /handoff_deliveries_total\{result="given_up"\} [1-9]/,
      );
    });

    on(
      'that a killed process has begun are sent again, and its late result changes nothing',
      async (harness) => {
        await harness.newEndpoint('/');
        harness.receiver.answer = (response) => response.writeHead(503).end();
        await harness.addEvents({});
        await harness.until(`select 1 from deliveries where tries = 1`);
        // As the process left it that was killed a moment ago, with a claim that has not ended.
        await harness.execute(
          `update deliveries set next_attempt_at = now(), claim = claim + 1, claimed_until = now() + interval '1 hour'`,
        );
        harness.receiver.answer = (response) => response.writeHead(204).end();
        await harness.addEvents({});
        await harness.until(`select 1 from deliveries where status = 'delivered'`);
        assert.equal(harness.receiver.received.length, 2);
        await harness.execute(`update deliveries set claimed_until = now() where claimed_until is not null`);
        await harness.until(
          `select 1 where 2 = (select count(*) from deliveries where status = 'delivered')`,
        );
      },
    );

    on(
      'stop when their endpoint is disabled after five days of failures, of which its consumer is notified',
      async (harness) => {
        harness.receiver.answer = (response, { path }) =>
          response.writeHead(path === '/fails' ? 500 : 204).end();
        const id = await harness.newEndpoint('/fails');
        await harness.newEndpoint('/other', { event_types: ['webhook_endpoint.disabled'] });
        await harness.addEvents({}, {});
        await harness.until(`select 1 where 2 = (select count(*) from deliveries where tries = 1)`);
        await harness.execute(
          `update webhook_endpoints set failing_since = now() - interval '5 days' where id = '${id}'`,
        );
        await harness.execute(
          `update deliveries set next_attempt_at = now() where number = (select min(number) from deliveries)`,
        );
        await harness.until(`select 1 from webhook_endpoints where disabled_reason = 'failing'`);
        await harness.until(
          `select 1 where not exists (select from deliveries where endpoint_id = '${id}' and status = 'pending')`,
        );
        const received = await harness.receiver.until(4);
        const notification = received.find(({ path }) => path === '/other');
        const { resource, data } = notification?.event ?? {};
        assert.deepEqual(resource, { type: 'webhook_endpoint', id });
        const shown = viewOfEndpoint(await harness.administration.find(reader, id));
        assert.deepEqual(data, JSON.parse(JSON.stringify(shown)));
        assert.ok(harness.logLines.some(({ message }) => message === 'a webhook endpoint was disabled'));
        const metrics = await harness.metrics.registry.metrics();
        assert.match(metrics, /handoff_webhook_endpoints_disabled_total\{reason="failing"\} [1-9]/);
      },
    );

    on('that were missed are sent by a recovery, and no others', async (harness) => {
      const id = await harness.newEndpoint('/', { event_types: ['quote.*'] });
      const since = new Date();
      await harness.addEvents({ type: 'quote.created' });
      await harness.receiver.until(1);
      await harness.until(`select 1 from deliveries where status = 'delivered'`);
      harness.receiver.answer = (response) => response.writeHead(500).end();
      await harness.addEvents({ type: 'quote.updated' });
      await harness.until(`select 1 from deliveries where tries = 1 and status = 'pending'`);
      await harness.administration.change(reader, id, { enabled: false }, () => {});
      assert.equal((await harness.execute(`select 1 from deliveries where status = 'pending'`)).length, 0);
      await harness.addEvents({ type: 'quote.deleted' }, { type: 'booking.created', permission: 'bookings' });
      harness.receiver.answer = (response) => response.writeHead(204).end();
      await harness.administration.change(reader, id, { enabled: true }, () => {});
      assert.equal(await harness.administration.recover(reader, id, new Date(Date.now() + 60_000)), 0);
      assert.equal(await harness.administration.recover(reader, id, since), 2);
      await harness.until(`select 1 where 3 = (select count(*) from deliveries where status = 'delivered')`);
      assert.deepEqual(typesAt(harness, '/').toSorted(), [
        'quote.created',
        'quote.deleted',
        'quote.updated',
        'quote.updated',
      ]);
    });

    on('that are asked for while an attempt is under way are sent again when it fails', async (harness) => {
      const id = await harness.newEndpoint('/');
      const since = new Date();
      harness.receiver.answer = (response) => response.writeHead(500).end();
      await harness.addEvents({ type: 'quote.created' });
      await harness.until(`select 1 from deliveries where tries = 1 and claimed_until is null`);
      // From here on the schedule would wait for hours.
      const answered = Promise.withResolvers<void>();
      harness.receiver.answer = (response) => void answered.promise.then(() => response.writeHead(500).end());
      await harness.execute('update deliveries set tries = 8, next_attempt_at = now()');
      await harness.receiver.until(2);
      assert.equal(await harness.administration.recover(reader, id, since), 1);
      harness.receiver.answer = (response) => response.writeHead(204).end();
      answered.resolve();
      await harness.until(`select 1 from deliveries where status = 'delivered'`);
      assert.equal(harness.receiver.received.length, 3);
    });

    on('begin with the events after the endpoint was made', async (harness) => {
      await harness.addEvents({ type: 'quote.created' });
      await harness.newEndpoint('/');
      await harness.addEvents({ type: 'quote.updated' });
      await harness.receiver.until(1);
      assert.deepEqual(typesAt(harness, '/'), ['quote.updated']);
    });

    on('are made once, by whichever replica, and deleted after their time', async (harness) => {
      await harness.newEndpoint('/');
      for (let added = 0; added < 40; added++) await harness.addEvents({}, {}, {});
      await harness.until(
        `select 1 where 120 = (select count(*) from deliveries where status = 'delivered')`,
      );
      const ids = harness.receiver.received.map(({ event }) => event.id);
      assert.deepEqual([ids.length, new Set(ids).size], [120, 120]);
      await harness.execute(
        `update deliveries set created_at = now() - interval '31 days' where number % 2 = 0`,
      );
      await harness.replicas[0]?.deleteOld();
      assert.equal((await harness.execute('select 1 from deliveries')).length, 60);
      await harness.execute('delete from webhook_endpoints');
      await harness.replicas[0]?.deleteOrphans();
      assert.equal((await harness.execute('select 1 from deliveries')).length, 0);
    });
  });
}
