import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { addEvents } from '../../../../src/features/events/event-log.ts';
import type { Database } from '../../../../src/platform/store/database.ts';
import { openPostgres } from '../../../../src/platform/store/postgres.ts';
import { createInstallation, type Installation } from '../../../support/gateway-process.ts';
import { recordLog } from '../../../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../../support/webhook-receiver.ts';

let server: PostgresDatabase | undefined;
let database: Database;
let installation: Installation;
let receiver: WebhookReceiver;

before(async () => {
  server = await startPostgres();
  if (!server) return;
  database = openPostgres({ url: server.url, log: recordLog().log });
  installation = await createInstallation({ DATABASE_URL: server.url, CHANGES_POLL_SECONDS: '3600' });
  receiver = await startWebhookReceiver();
});
after(async () => {
  if (!server) return;
  await installation.remove();
  receiver.stop();
  await database.close();
  await server.stop();
});

const eventsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => ({
    type: 'quote.updated' as const,
    resource: { type: 'quote', id: `quote-${from + at}` },
    occurredAt: '2027-03-02T16:05:12.000Z',
    data: '{}',
    permission: 'quotes' as const,
  }));

test('every event reaches its endpoint although the process is killed again and again', async (t) => {
  if (!server) return t.skip('there is no PostgreSQL');
  let gateway = await installation.start();
  const { console } = await installation.credentials();
  const response = await fetch(`${gateway.url}/v1/webhook-endpoints`, {
    method: 'POST',
    headers: {
      'x-api-key': console.apiKey,
      'x-api-secret': console.apiSecret,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ url: receiver.url }),
  });
  assert.equal(response.status, 201);
  let kills = 0;
  for (; kills < 3; kills++) {
    const killed = gateway;
    const target = receiver.received.length + 15;
    // The rest of what is under way is never answered.
    receiver.answer = (answer) => void (receiver.received.length < target && answer.writeHead(204).end());
    await addEvents(database.sql, eventsOf(kills * 40, 40));
    await receiver.until(target);
    killed.signal('SIGKILL');
    await killed.ended;
    // What it had begun is due when its claims end.
    await sql`update deliveries set claimed_until = now() where claimed_until is not null`.execute(
      database.sql,
    );
    receiver.answer = (answer) => answer.writeHead(204).end();
    gateway = await installation.start();
  }
  for (let open = 1; open > 0; ) {
    const { rows } = await sql<{ open: number }>`
      select 120 - count(*)::integer as open from deliveries where status = 'delivered'`.execute(
      database.sql,
    );
    open = rows[0]?.open ?? 1;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const ids = new Set(receiver.received.map(({ event }) => event.resource.id));
  assert.equal(ids.size, kills * 40);
});
