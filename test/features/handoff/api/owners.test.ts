import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';
import { recordFor } from '../../../support/records.ts';

const key = () => ({ 'idempotency-key': randomUUID() });
const fallbacks = async (gateway: TestGateway) =>
  Number(/^handoff_crm_owner_fallbacks_total (\d+)$/m.exec(await gateway.metrics())?.[1]);
const callsOf = async (gateway: TestGateway) =>
  ((await gateway.org.counters()) as { metered: number }).metered;

/** The owner of a hand-off in the name of this person. */
async function ownerOf(gateway: TestGateway, actor: string | undefined, body?: object): Promise<unknown> {
  const response = await gateway.request('/api/v1/handoff', {
    body: { ...offerFor(gateway.org.memberId), ...body },
    headers: { ...key(), ...(actor && { 'x-actor': encodeURIComponent(actor) }) },
  });
  const text = await response.text();
  assert.equal(response.status, 201, text);
  const { external_id } = JSON.parse(text) as { external_id: string };
  const [record] = await gateway.org.records('Quote__c', { External_Id__c: external_id });
  return record?.['OwnerId'];
}

describe('owners of records by crm.ownerMatch', () => {
  const gateway = useGateway({ CRM_OWNER_MATCH: 'Email' });
  let integration: unknown;
  let ids: string[];
  before(async () => {
    const user = (Username: string, more: object) => ({ Username, LastName: 'x', ...more });
    ids = await gateway.org.insert('User', [
      user('ana', { Email: 'Ana@example.com', IsActive: true }),
      user('gone', { Email: 'gone@example.com', IsActive: false }),
      user('twin1', { Email: 'twin@example.com', IsActive: true }),
      user('twin2', { Email: 'twin@example.com', IsActive: true }),
      user('portal', { Email: 'portal@example.com', IsActive: true, UserType: 'CsnOnly' }),
    ]);
    integration = await ownerOf(gateway, undefined);
  });

  test('it is the one active user of that e-mail address, in any case of letters', async () => {
    assert.equal(await ownerOf(gateway, 'aNA@example.com'), ids[0]);
    for (const nobody of ['gone@example.com', 'twin@example.com', 'unknown@example.com', "o'x%@example.com"])
      assert.equal(await ownerOf(gateway, nobody), integration, nobody);
    assert.ok(typeof integration === 'string' && !ids.includes(integration));
  });

  test('a person costs one look-up, and no id of a user is shown', async () => {
    await ownerOf(gateway, 'ana@example.com');
    const before = await callsOf(gateway);
    await ownerOf(gateway, 'ana@example.com');
    assert.equal((await callsOf(gateway)) - before, 1);
    const body = recordFor(gateway.org.memberId);
    const made = await gateway.request('/v1/quotes', {
      body,
      headers: { ...key(), 'x-actor': 'ana@example.com' },
    });
    const text = await made.text();
    assert.equal(made.status, 201, text);
    assert.ok(!text.includes(String(ids[0]).slice(0, 15)));
    const { id } = JSON.parse(text) as { id: string };
    const [record] = await gateway.org.records('Quote__c', { External_Id__c: id });
    assert.equal(record?.['OwnerId'], ids[0]);
    // A change of somebody else leaves the owner.
    const path = `/v1/quotes/${id}`;
    const headers = { ...key(), 'x-actor': 'twin@example.com' };
    assert.equal(
      (await gateway.request(path, { method: 'PATCH', body: { name: 'b' }, headers })).status,
      200,
    );
    const [changed] = await gateway.org.records('Quote__c', { External_Id__c: id });
    assert.equal(changed?.['OwnerId'], ids[0]);
  });

  test('an owner that the org refuses is not the fault of the caller', async () => {
    const before = await fallbacks(gateway);
    assert.equal(await ownerOf(gateway, 'portal@example.com'), integration);
    assert.equal(await fallbacks(gateway), before + 1);
    for (const errorCode of [
      'INACTIVE_OWNER_OR_USER',
      'TRANSFER_REQUIRES_READ',
      'INVALID_CROSS_REFERENCE_KEY',
    ]) {
      const [id] = await gateway.org.insert('User', [
        { Username: errorCode, LastName: 'x', Email: `${errorCode}@example.com`, IsActive: true },
      ]);
      const armed = await gateway.org.arm({
        match: { object: 'Quote__c', method: 'POST' },
        effect: { kind: 'recordError', errorCode, message: 'owner' },
        times: 1,
      });
      assert.equal(await ownerOf(gateway, `${errorCode}@example.com`), integration, String(id));
      await armed.remove();
    }
    assert.equal(await fallbacks(gateway), before + 4);
  });

  test('a member that does not exist stays the fault of the caller, and owners are not forgotten for it', async () => {
    const before = await fallbacks(gateway);
    const response = await gateway.request('/api/v1/handoff', {
      body: offerFor(randomUUID()),
      headers: { ...key(), 'x-actor': 'ana@example.com' },
    });
    assert.equal(response.status, 422);
    assert.equal(((await response.json()) as { code: string }).code, 'member_not_found');
    assert.equal(await ownerOf(gateway, 'ana@example.com'), ids[0]);
    assert.equal(await fallbacks(gateway), before);
  });

  test('a trip that is handed off at once has owners too, also where the org refuses one', async () => {
    const trip = async (actor: string) => {
      const { trip_id, member_id, type, result } = offerFor(gateway.org.memberId) as unknown as Record<
        string,
        unknown
      >;
      const item = { type, result };
      const response = await gateway.request('/api/v1/handoffs', {
        body: { trip_id, member_id, items: [item, { ...item, type: 'booking' }] },
        headers: { ...key(), 'x-actor': actor },
      });
      const text = await response.text();
      assert.equal(response.status, 201, text);
      const { items } = JSON.parse(text) as { items: { external_id: string; type: string }[] };
      const owners: unknown[] = [];
      for (const { external_id, type: made } of items) {
        const object = made === 'quote' ? 'Quote__c' : 'Booking__c';
        const [record] = await gateway.org.records(object, { External_Id__c: external_id });
        owners.push(record?.['OwnerId']);
      }
      return owners;
    };
    assert.deepEqual(await trip('ana@example.com'), [ids[0], ids[0]]);
    const [late] = await gateway.org.insert('User', [
      { Username: 'late', LastName: 'x', Email: 'late@example.com', IsActive: true, UserType: 'CsnOnly' },
    ]);
    assert.ok(late);
    assert.deepEqual(await trip('late@example.com'), [integration, integration]);
  });

  test('where the field of users cannot be read, the integration user owns the records', async () => {
    const change = (access: string) =>
      fetch(`${gateway.org.url}/simulator/org`, {
        method: 'PATCH',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ objects: { User: { fields: { Email: { access } } } } }),
      });
    assert.equal((await change('none')).status, 200);
    try {
      assert.equal(await ownerOf(gateway, 'not-asked-yet@example.com'), integration);
    } finally {
      await change('write');
    }
  });
});

describe('owners of records by a mapping', () => {
  let gateway: TestGateway;
  let folder: string;
  let queue: string | undefined;
  let user: string | undefined;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handoff-owners-'));
    const file = join(folder, 'mapping.yaml');
    await writeFile(
      file,
      'version: 1\nresources:\n  quote:\n    owner: {match: FederationIdentifier, else: {queue: Travel_Desk}}\n',
    );
    gateway = await startGateway({ CRM_MAPPING_FILE: file, CRM_OWNER_VERIFIED_ONLY: 'true' });
    [queue] = await gateway.org.insert('Group', [
      { Name: 'Desk', DeveloperName: 'Travel_Desk', Type: 'Queue' },
    ]);
    [user] = await gateway.org.insert('User', [
      { Username: 'ana', LastName: 'x', FederationIdentifier: 'ana@example.com', IsActive: true },
    ]);
  });
  after(async () => {
    await gateway.stop();
    await rm(folder, { recursive: true });
  });
  beforeEach(() => assert.ok(queue && user));

  test('it is the queue where nobody acts, and where the actor is not proven', async () => {
    assert.equal(await ownerOf(gateway, undefined), queue);
    assert.equal(await ownerOf(gateway, 'ana@example.com'), queue);
  });
});

for (const [state, copy] of [
  ['without a copy', {}],
  ['with a copy', { COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '1' }],
] as const)
  describe(`owners of records in a private org without View All, ${state}`, () => {
    const gateway = useGateway({ CRM_OWNER_MATCH: 'Email', ...copy });
    let owner: unknown;
    const share = (viewAll: boolean) => shareRecords(gateway, { sharing: 'private', viewAll });
    before(async () => {
      await share(false);
      [owner] = await gateway.org.insert('User', [
        { Username: 'ana', LastName: 'x', Email: 'ana@example.com', IsActive: true },
      ]);
    });
    const asAna = () => ({ ...key(), 'x-actor': 'ana@example.com' });
    /** What the POST made, once it is made a second time under the same key. */
    const made = async (path: string, body: object) => {
      const headers = asAna();
      const response = await gateway.request(path, { body, headers });
      const text = await response.text();
      assert.equal(response.status, 201, text);
      const again = await gateway.request(path, { body, headers });
      assert.equal(await again.text(), text);
      return { response, answer: JSON.parse(text) as Record<string, unknown> };
    };
    const ownersOf = async (object: string, id: unknown) =>
      (await gateway.org.records(object, { External_Id__c: id as string })).map((row) => row['OwnerId']);

    test('a hand-off is confirmed', async () => {
      const { answer } = await made('/api/v1/handoff', offerFor(gateway.org.memberId));
      const [row] = await gateway.org.records('Quote__c', {
        External_Id__c: answer['external_id'] as string,
      });
      assert.deepEqual([row?.['Id'], row?.['OwnerId']], [answer['id'], owner]);
      assert.equal(answer['status'], 'created');
    });

    test('an item with a reference is confirmed', async () => {
      const offer = { ...offerFor(gateway.org.memberId), reference: randomUUID() };
      const { answer } = await made('/api/v1/handoff', offer);
      assert.deepEqual(await ownersOf('Quote__c', answer['external_id']), [owner]);
    });

    test('a trip is confirmed', async () => {
      const { trip_id, member_id, type, result } = offerFor(gateway.org.memberId) as unknown as Record<
        string,
        unknown
      >;
      const items = [
        { type, result },
        { type: 'booking', result, reference: randomUUID() },
      ];
      const { answer } = await made('/api/v1/handoffs', { trip_id, member_id, items });
      const [first, second] = answer['items'] as Record<string, unknown>[];
      assert.deepEqual(await ownersOf('Quote__c', first?.['external_id']), [owner]);
      assert.deepEqual(await ownersOf('Booking__c', second?.['external_id']), [owner]);
    });

    test('a new record is answered as it was written, and all is there once View All is given', async () => {
      const trip_id = randomUUID();
      const lost = { body: offerFor(gateway.org.memberId, { trip_id }), headers: asAna() };
      const { remove } = await gateway.org.arm({
        match: { operation: 'create' },
        effect: { kind: 'loseAnswer' },
        times: 1,
      });
      for (const _ of ['lost', 'sent again']) {
        const response = await gateway.request('/api/v1/handoff', lost);
        const problem = await assertProblem(response, 502, 'crm_error');
        assert.match(problem.detail, /View All Records on Quote__c/);
      }
      await remove();
      const body = recordFor(gateway.org.memberId);
      const { response, answer } = await made('/v1/quotes', body);
      const { id, created_at, updated_at, created_by } = answer;
      assert.deepEqual({ ...answer, ...body, status: 'created' }, answer);
      assert.ok(Date.parse(String(created_at)) > 0 && created_at === updated_at);
      assert.equal((created_by as { actor: string }).actor, 'ana@example.com');
      assert.equal(response.headers.get('location'), `/v1/quotes/${String(id)}`);
      assert.deepEqual(await ownersOf('Quote__c', id), [owner]);
      const path = `/v1/quotes/${String(id)}`;
      assert.equal((await gateway.request(path)).status, 404);
      await share(true);
      const read = await gateway.request(path);
      assert.equal(read.status, 200);
      assert.deepEqual({ ...((await read.json()) as object), created_at, updated_at }, answer);
      const confirmed = await gateway.request('/api/v1/handoff', lost);
      assert.equal(confirmed.status, 201);
      const rows = await gateway.org.records('Quote__c', { Trip_Id__c: trip_id });
      assert.deepEqual(
        rows.map((row) => row['Id']),
        [((await confirmed.json()) as { id: string }).id],
      );
    });
  });

/** Gives quotes and bookings of the org this sharing; users that were added are gone then. */
async function shareRecords({ org }: TestGateway, sharing: object): Promise<void> {
  const response = await fetch(`${org.url}/simulator/org`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ objects: { Quote__c: sharing, Booking__c: sharing } }),
  });
  assert.equal(response.status, 200);
}
