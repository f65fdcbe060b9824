import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeliveryQueue } from '../../../src/features/partner-webhooks/delivery-queue.ts';
import { useTestDatabase } from '../../support/databases.ts';

const opened = useTestDatabase();

test('a delivery that waits for an endpoint counts, unless the endpoint is disabled', async () => {
  const [database] = opened.replicas;
  await database.execute(`
    insert into webhook_endpoints (id, consumer_id, url, url_key, event_types, after_sequence)
    values ('whe_1', 'con_1', 'https://8.8.8.8/', 'https://8.8.8.8/', '[]', 0)`);
  await database.execute(`
    insert into deliveries (endpoint_id, event_id, event_type, record, status, next_attempt_at, created_at)
    values ('whe_1', 'evt_1', 'ping', 'evt_1', 'pending', now() - interval '1 minute', now() - interval '1 hour')`);
  const ages = async () => {
    const { pending, overdue } = await new DeliveryQueue(database).ages({ active: ['con_1'] });
    return [pending >= 3600, overdue >= 60];
  };
  assert.deepEqual(await ages(), [true, true]);
  await database.execute(`update webhook_endpoints set enabled = false, disabled_reason = 'requested'`);
  assert.deepEqual(await ages(), [false, false]);
});
