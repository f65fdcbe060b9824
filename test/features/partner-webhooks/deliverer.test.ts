import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { addEvents } from '../../../src/features/events/event-log.ts';
import { startDeliverer } from '../../../src/features/partner-webhooks/deliverer.ts';
import { DeliveryQueue } from '../../../src/features/partner-webhooks/delivery-queue.ts';
import type { Endpoint } from '../../../src/features/partner-webhooks/endpoint.ts';
import { EndpointsTable } from '../../../src/features/partner-webhooks/endpoints-table.ts';
import { partnerWebhookMetrics } from '../../../src/features/partner-webhooks/metrics.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { useTestDatabase } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';

const owner = { id: 'con_1' };
const sees = { all_records: ['quotes'], own_records: [], fields: {} };
const oldUrl = 'https://8.8.8.8/old';
const newUrl = 'https://8.8.8.8/new';

type StoredEndpoint = Endpoint & { failing_since: Date | null };

interface Circumstances {
  status: number;
  queue?: DeliveryQueue;
  whileAnswering?: (id: string) => Promise<unknown>;
  whileDisabling?: (id: string) => Promise<unknown>;
}

describe('a deliverer', () => {
  const opened = useTestDatabase();
  const execute = (text: string) => opened.replicas[0].execute(text);
  const table = () => new EndpointsTable(opened.replicas[0]);
  const moveTo = (url: string) => (id: string) => table().change(owner, id, { url }, undefined);
  afterEach(async () => {
    await execute('delete from webhook_endpoints');
    await execute('delete from deliveries');
  });

  /** Sends one event to a new endpoint; `isSent` resolves when it is sent. */
  async function start({ status, queue, whileAnswering, whileDisabling }: Circumstances) {
    const [database] = opened.replicas;
    const wanted = { url: oldUrl, event_types: [], description: null };
    const { id } = (await table().add(owner, wanted)) as Endpoint;
    const resource = { type: 'quote', id: 'one' };
    const occurredAt = '2027-03-02T16:05:12.000Z';
    const event = { type: 'quote.updated', resource, occurredAt, data: '{}', permission: 'quotes' } as const;
    await addEvents(database.sql, [event]);
    const isSent = Promise.withResolvers<void>();
    const deliverer = startDeliverer({
      queue: queue ?? new DeliveryQueue(database),
      secrets: { of: async () => [Buffer.from('secret')] },
      http: {
        post: async () => {
          isSent.resolve();
          await whileAnswering?.(id);
          return { status, retryAfter: '3600' };
        },
      },
      loadConsumers: async () => ({
        visibility: [{ viewer: owner.id, consumer_id: owner.id, ...sees }],
        active: [owner.id],
      }),
      disable: async (...args) => {
        await whileDisabling?.(id);
        return table().disable(...args);
      },
      userAgent: 'test',
      log: recordLog().log,
      metrics: createMetrics(partnerWebhookMetrics),
    });
    return { deliverer, isSent: isSent.promise };
  }

  /** The endpoint when all work for the event is done. */
  async function afterOne(circumstances: Circumstances): Promise<StoredEndpoint> {
    const { deliverer, isSent } = await start(circumstances);
    await isSent;
    await deliverer.stop();
    const { rows } = (await execute('select * from webhook_endpoints')) as { rows: StoredEndpoint[] };
    return rows[0] as StoredEndpoint;
  }

  test('disables an endpoint that answers 410', async () => {
    const { enabled, disabled_reason } = await afterOne({ status: 410 });
    assert.deepEqual([enabled, disabled_reason], [false, 'gone']);
  });

  test('disables none for a 410 of the URL that it had before', async () => {
    assert.equal((await afterOne({ status: 410, whileAnswering: moveTo(newUrl) })).enabled, true);
  });

  test('disables none whose URL is changed before it does', async () => {
    assert.equal((await afterOne({ status: 410, whileDisabling: moveTo(newUrl) })).enabled, true);
  });

  test('disables none for a 410 that it hears once another process has the delivery', async () => {
    const whileAnswering = () =>
      execute(`update deliveries set claim = claim + 1, claimed_until = now() + interval '1 hour'`);
    assert.equal((await afterOne({ status: 410, whileAnswering })).enabled, true);
  });

  const failFor5Days = () =>
    execute(`update webhook_endpoints set failing_since = now() - interval '5 days'`);

  test('disables none for the failures of the URL that it had before', async () => {
    const whileAnswering = (id: string) => failFor5Days().then(() => moveTo(newUrl)(id));
    const { enabled, failing_since } = await afterOne({ status: 500, whileAnswering });
    assert.deepEqual([enabled, failing_since], [true, null]);
  });

  test('goes on counting failures where the URL is only spelt differently', async () => {
    const whileAnswering = (id: string) => failFor5Days().then(() => moveTo(`${oldUrl}#part`)(id));
    assert.ok((await afterOne({ status: 500, whileAnswering })).failing_since);
  });

  test('sends what is due before it measures how old what waits is', async (t) => {
    const measured = Promise.withResolvers<{ pending: number; overdue: number }>();
    class Slow extends DeliveryQueue {
      override ages() {
        return measured.promise;
      }
    }
    let sent = 0;
    const queue = new Slow(opened.replicas[0]);
    const { deliverer } = await start({ status: 204, queue, whileAnswering: async () => sent++ });
    t.after(() => {
      measured.resolve({ pending: 0, overdue: 0 });
      return deliverer.stop();
    });
    await eventually(() => assert.equal(sent, 1));
  });
});
