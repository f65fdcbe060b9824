import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { maxEndpoints } from '../../../src/features/partner-webhooks/endpoint.ts';
import type { Consumer } from '../../../src/identity/consumers/consumer.ts';
import { databaseKinds } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { consumerOf, type Harness, startHarness } from './harness.ts';

/** Deliveries to one consumer at once: twenty endpoints, ten each. */
const mostOfConsumer = 200;
/** Slow endpoints answer after so long, and may take a little longer: a delivery is leased for 30 s. */
const slowMs = 18_000;
const timeoutMs = 20_000;
/** Promised are 2 s; a machine that runs other tests too is slower. Who waits for slow endpoints takes longer than this. */
const longestMs = 15_000;

for (const kind of Object.keys(databaseKinds)) {
  describe(`the shares of consumers on ${kind}`, () => {
    let harness: Harness | undefined;
    before(async () => {
      harness = await startHarness(kind, { timeoutMs });
    });
    after(() => harness?.stop());
    afterEach(async () => {
      await harness?.execute('delete from webhook_endpoints');
      await harness?.execute('delete from deliveries');
    });

    const on = (name: string, run: (harness: Harness) => Promise<void>): void => {
      void test(name, async (t) => {
        if (!harness) return t.skip('there is no PostgreSQL');
        await run(harness);
      });
    };
    const named = (name: string) => consumerOf(`con_${name}`, { resource: 'quotes', actions: ['read'] });

    /** Twenty endpoints of a consumer, each with so many deliveries that wait. */
    async function occupy(harness: Harness, name: string, waiting: number): Promise<Consumer> {
      const consumer = named(name);
      for (let at = 0; at < maxEndpoints; at++)
        await harness.newEndpoint(`/${name}/${at}`, { event_types: ['quote.created'] }, consumer);
      await harness.execute(`
        insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
        select w.id, '${name}' || n, 'ping', '${name}' || n, 'pending', now()
        from webhook_endpoints w, generate_series(1, ${waiting}) as n where w.consumer_id = '${consumer.id}'`);
      return consumer;
    }

    /** Answers after so long, except to those in a hurry; counts what is open by consumer. */
    function answerSlowly({ receiver }: Harness, afterMs: number) {
      const open = new Map<string, number>();
      const most = new Map<string, number>();
      const answers = new Set<() => void>();
      let isOver = false;
      receiver.answer = (response, { path }) => {
        const [, name = ''] = path.split('/');
        if (name === 'quick') {
          response.writeHead(204).end();
          return;
        }
        const count = (open.get(name) ?? 0) + 1;
        open.set(name, count);
        most.set(name, Math.max(count, most.get(name) ?? 0));
        response.on('close', () => open.set(name, (open.get(name) ?? 1) - 1));
        const answer = () => {
          if (!response.headersSent) response.writeHead(204).end();
        };
        answers.add(answer);
        setTimeout(answer, isOver ? 0 : afterMs).unref();
      };
      return {
        most,
        end: () => {
          isOver = true;
          for (const answer of answers) answer();
        },
      };
    }

    async function until(isTrue: () => boolean): Promise<void> {
      await eventually(() => assert.ok(isTrue()));
    }

    on('let a third one have its event within 2 s while two have slow endpoints', async (harness) => {
      const slow = answerSlowly(harness, slowMs);
      for (const name of ['one', 'two']) await occupy(harness, name, 100);
      const third = named('third');
      const id = await harness.newEndpoint('/quick', { event_types: ['quote.updated'] }, third);
      await until(() => ['one', 'two'].every((name) => (slow.most.get(name) ?? 0) >= mostOfConsumer));
      for (let tries = 0; tries < 3; tries++) {
        const sent = performance.now();
        if (tries === 0) await harness.administration.test(third, id);
        else await harness.addEvents({ type: 'quote.updated' });
        const arrived = () => harness.receiver.received.filter(({ path }) => path === '/quick').length;
        await until(() => arrived() === tries + 1);
        assert.ok(performance.now() - sent < longestMs, `${performance.now() - sent} ms`);
      }
      assert.deepEqual(Object.fromEntries(slow.most), { one: mostOfConsumer, two: mostOfConsumer });
      slow.end();
    });

    on('leave room for one more, however many have slow endpoints', async (harness) => {
      const slow = answerSlowly(harness, slowMs);
      const names = ['one', 'two', 'three', 'four', 'five'];
      for (const name of names) await occupy(harness, name, 20);
      const last = named('last');
      const id = await harness.newEndpoint('/quick', { event_types: ['quote.updated'] }, last);
      // Five and what is left free share 800 attempts.
      await until(() => names.every((name) => (slow.most.get(name) ?? 0) >= 130));
      const before = harness.receiver.received.filter(({ path }) => path === '/quick').length;
      const sent = performance.now();
      await harness.administration.test(last, id);
      await until(() => harness.receiver.received.filter(({ path }) => path === '/quick').length > before);
      assert.ok(performance.now() - sent < longestMs, `${performance.now() - sent} ms`);
      for (const [name, count] of slow.most) assert.ok(count <= mostOfConsumer, `${name}: ${count}`);
      slow.end();
    });

    on('look no further than needed where most that waits is of one record', async (harness) => {
      const consumer = await occupy(harness, 'one', 0);
      await harness.execute(`
        insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at)
        select w.id, 'same' || n, 'ping', 'same', 'pending', now() - interval '1 minute'
        from webhook_endpoints w, generate_series(1, 400) as n where w.consumer_id = '${consumer.id}'`);
      const slow = answerSlowly(harness, 1000);
      const third = named('third');
      const id = await harness.newEndpoint('/quick', { event_types: ['quote.updated'] }, third);
      await until(() => (slow.most.get('one') ?? 0) > 0);
      const before = harness.receiver.received.filter(({ path }) => path === '/quick').length;
      const sent = performance.now();
      await harness.administration.test(third, id);
      await until(() => harness.receiver.received.filter(({ path }) => path === '/quick').length > before);
      assert.ok(performance.now() - sent < longestMs, `${performance.now() - sent} ms`);
      // One to each endpoint.
      assert.ok((slow.most.get('one') ?? 0) <= maxEndpoints);
      slow.end();
    });
  });
}
