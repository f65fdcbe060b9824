import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import type { Org } from '../../support/org.ts';
import { startOwnOrg } from '../../support/own-org.ts';
import { copyEnv, read, untilCopied } from './support.ts';

interface Health {
  crm: { lacks?: { object: string; field: string | null }[] };
  changes: { connected: boolean };
  copy: { connected: boolean; filling?: boolean; age_seconds: number | null };
}

async function change(org: Org, object: string, description: object): Promise<void> {
  const response = await fetch(`${org.url}/simulator/org`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ objects: { [object]: description } }),
  });
  assert.equal(response.status, 200, await response.text());
}

/** What the integration user may do with the column of External IDs; null: everything. */
const keyAccess = (access: 'none' | null) => ({ fields: { External_Id__c: { access } } });

const healthOf = async (gateway: TestGateway) =>
  (await (await gateway.request('/v1/healthz')).json()) as Health;

async function make(gateway: TestGateway, path: string, memberId = gateway.org.memberId): Promise<string> {
  const response = await gateway.request(path, {
    body: { trip_id: randomUUID(), member_id: memberId, name: 'first', source: 'b', details: {} },
    headers: { 'idempotency-key': randomUUID() },
  });
  assert.equal(response.status, 201, await response.clone().text());
  return ((await response.json()) as { id: string }).id;
}

const isOf =
  (id: string, type: string) =>
  (event: { type: string; resource: { id: string } }): boolean =>
    event.type === type && event.resource.id === id;

const named =
  (name: string) =>
  ({ body }: { body: string }) =>
    body.includes(`"name":"${name}"`);

async function start(t: TestContext, env: NodeJS.ProcessEnv = {}): Promise<TestGateway> {
  const gateway = await startGateway({ ...copyEnv, ...env });
  t.after(() => gateway.stop());
  return gateway;
}

test('while the keys of an object are hidden the others have events and a fresh copy, and nothing of it is lost', async (t) => {
  const gateway = await start(t);
  const { org, request } = gateway;
  const feed = new FeedReader(request);
  await untilCopied(request, '/v1/bookings?limit=1');
  const changed = await make(gateway, '/v1/bookings');
  const deleted = await make(gateway, '/v1/bookings');
  await feed.until(isOf(changed, 'booking.created'));
  await feed.until(isOf(deleted, 'booking.created'));
  await change(org, 'Booking__c', keyAccess('none'));
  await eventually(async () => {
    assert.equal((await request(`/v1/bookings/${changed}`)).status, 502);
    const { lacks = [] } = (await healthOf(gateway)).crm;
    assert.deepEqual(
      lacks.map(({ object, field }) => [object, field]),
      [['Booking__c', 'External_Id__c']],
    );
  });
  await org.edit('Booking__c', { External_Id__c: changed }, { Name__c: 'second' });
  await org.bin('Booking__c', deleted);

  const quote = await make(gateway, '/v1/quotes');
  await feed.until(isOf(quote, 'quote.created'));
  await org.edit('Quote__c', { External_Id__c: quote }, { Name__c: 'second' });
  await feed.until(isOf(quote, 'quote.updated'));
  await untilCopied(request, `/v1/quotes/${quote}`, named('second'));
  // What is known of bookings grows older while the rest doesn't.
  const ageOf = async (path: string) => (await read(request, path, 'max-age=600')).age ?? assert.fail(path);
  await eventually(async () => {
    const [age, ageOfBooking] = [await ageOf(`/v1/quotes/${quote}`), await ageOf(`/v1/bookings/${changed}`)];
    assert.ok(age < ageOfBooking, `${age} and ${ageOfBooking} s`);
    assert.ok((await ageOf('/v1/quotes?limit=5')) < (await ageOf('/v1/bookings?limit=5')));
    const { changes, copy } = await healthOf(gateway);
    assert.ok(changes.connected && copy.connected && (copy.age_seconds ?? 600) < ageOfBooking);
  });

  await change(org, 'Booking__c', keyAccess(null));
  await eventually(async () => assert.equal((await request(`/v1/bookings/${changed}`)).status, 200));
  const { data } = await feed.until(isOf(changed, 'booking.updated'));
  assert.equal(data['name'], 'second');
  await feed.until(isOf(deleted, 'booking.deleted'));
  assert.deepEqual(feed.typesOf(changed), ['booking.created', 'booking.updated']);
  assert.deepEqual(feed.typesOf(deleted), ['booking.created', 'booking.deleted']);
  await untilCopied(request, `/v1/bookings/${changed}`, named('second'));
  assert.equal((await read(request, `/v1/bookings/${deleted}`, 'max-age=60')).status, 404);
});

test('without an object from the start the others are read and copied; it follows once it is there', async (t) => {
  const own = await startOwnOrg();
  t.after(() => own.close());
  const secretsDir = await mkdtemp(join(tmpdir(), 'handoff-broken-object-'));
  t.after(() => rm(secretsDir, { recursive: true }));
  await own.trust(secretsDir);
  const { org } = own;
  const before = randomUUID();
  const [member] = await org.records('Contact', { External_Id__c: org.memberId });
  await org.insert('Booking__c', [
    {
      ...{ External_Id__c: before, Trip_Id__c: randomUUID(), Member__c: member?.['Id'], Name__c: 'first' },
      ...{ Source__c: 'b', Details__c: '{}', Status__c: 'created' },
      ...{ CreatedDate: '2020-01-02T03:04:05.000+0000', SystemModstamp: '2020-01-02T03:04:05.000+0000' },
    },
  ]);
  await change(org, 'Booking__c', { access: 'none' });
  const gateway = await start(t, { ...own.env, SECRETS_DIR: secretsDir });
  const { request } = gateway;
  const feed = new FeedReader(request);
  await untilCopied(request, '/v1/quotes?limit=1');
  const quote = await make(gateway, '/v1/quotes', org.memberId);
  await feed.until(isOf(quote, 'quote.created'));
  await eventually(async () => {
    const { copy } = await healthOf(gateway);
    assert.ok(copy.connected && copy.filling === undefined, JSON.stringify(copy));
  });
  assert.equal((await read(request, '/v1/bookings?limit=1', 'max-age=600')).status, 502);

  await change(org, 'Booking__c', { access: null });
  await untilCopied(request, `/v1/bookings/${before}`, named('first'));
  const booking = await make(gateway, '/v1/bookings', org.memberId);
  await feed.until(isOf(booking, 'booking.created'));
  assert.deepEqual(feed.typesOf(before), [], 'it was there before the start');
  await org.edit('Booking__c', { External_Id__c: before }, { Name__c: 'second' });
  await feed.until(isOf(before, 'booking.updated'));
});
