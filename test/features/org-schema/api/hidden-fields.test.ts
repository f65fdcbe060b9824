import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { eventually } from '../../../support/eventually.ts';
import {
  type Credentials,
  type RequestOptions,
  startGateway,
  type TestGateway,
} from '../../../support/gateway.ts';
import { offerFor, respondAsync, untilHandoff } from '../../../support/handoffs.ts';
import { useOwnOrg } from '../../../support/own-org.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

const travelFile = join(import.meta.dirname, '../../../../simulators/salesforce/orgs/travel.mapping.yaml');
const keyed = () => ({ 'idempotency-key': randomUUID() });
/** Fields of the other one. */
const others = { quotes: ['travellers'], bookings: ['budget'] };
/** What every hand-off writes. */
const five = ['trip_id', 'member_id', 'name', 'source', 'details'];

interface Mapped {
  fields: Record<string, unknown>;
  add: Record<string, object>;
}

/** Permissions by field over the fields that a mapping adds, and takes from the body of a hand-off. */
describe('fields that a mapping adds and a consumer does not see', () => {
  const own = useOwnOrg({ org: 'travel' });
  let gateway: TestGateway;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handoff-hidden-'));
    await own.trust(folder);
    const mapping = parse(await readFile(travelFile, 'utf8')) as {
      resources: Record<'quote' | 'booking', Mapped>;
    };
    const { quote, booking } = mapping.resources;
    booking.fields['status'] = null;
    Object.assign(quote.add['budget'] ?? {}, { from: '/result/details/budget' });
    Object.assign(booking.add['travellers'] ?? {}, { from: '/result/details/dining/party_size' });
    const file = join(folder, 'mapping.yaml');
    await writeFile(file, stringify(mapping));
    gateway = await startGateway({ ...own.env, CRM_MAPPING_FILE: file, SECRETS_DIR: folder });
    await eventually(
      async () => assert.ok((await (await gateway.request('/v1/docs')).text()).includes('Half board')),
      { everyMs: 50 },
    );
  });
  after(async () => {
    await gateway.stop();
    await rm(folder, { recursive: true });
  });

  /** A consumer that sees these fields of quotes and of bookings. */
  async function seeing(fields: string[], more: object = {}): Promise<Credentials> {
    const actions = ['read', 'write', 'delete'];
    const permissions = (['quotes', 'bookings'] as const).map((resource) => {
      const known = fields.filter((name) => !others[resource].includes(name));
      return { resource, actions, fields: known, ...more };
    });
    const body = { name: `sees ${fields.join(' ')}`, permissions };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    assert.equal(made.status, 201, await made.clone().text());
    return (await made.json()) as Credentials;
  }
  const send = (path: string, options: RequestOptions) =>
    gateway.request(path, { ...options, headers: { ...keyed(), ...options.headers } });
  const offer = (details: object) => ({
    ...offerFor(own.org.memberId),
    result: { name: 'Hotel', source: 's', details },
  });
  const quote = (fields: object = {}) => ({
    ...{ trip_id: randomUUID(), member_id: own.org.memberId, name: 'Hotel', source: 's', details: {} },
    ...fields,
  });
  const ruleOn = (object: string, field: string) =>
    own.org.automate({
      validationRules: [
        { name: 'Secret', object, when: { field, equals: null }, message: 'Ask Zoe first.', field },
      ],
    });
  const jsonOf = async (response: Response, status: number) => {
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text) as Record<string, unknown>;
  };

  test('are in no refusal of a hand-off, though their pointer in its body is', async () => {
    const as = await seeing(five);
    await ruleOn('Travel_Offer__c', 'Budget__c');
    for (const headers of [{}, { prefer: 'respond-async, wait=5' }]) {
      const refused = await send('/api/v1/handoff', { as, body: offer({}), headers });
      const text = await refused.text();
      assert.equal(refused.status, 422, text);
      assert.doesNotMatch(text, /Zoe|budget/);
    }
    const seen = await send('/api/v1/handoff', { body: offer({}) });
    await assertProblem(seen, 422, 'crm_rejected', '#/result/details/budget');
    await own.org.automate({});
  });

  test('are in no refusal of a reservation, nor of a repeat of it', async () => {
    const as = await seeing([...five, 'travellers']);
    await ruleOn('Trip_Booking__c', 'Supplier_Reference__c');
    const body = newReservation(own.org.memberId);
    const key = keyed();
    for (let i = 0; i < 2; i++) {
      const refused = await send('/v1/reservations', { as, body, headers: key });
      const text = await refused.text();
      assert.equal(refused.status, 422, text);
      assert.doesNotMatch(text, /Zoe|supplier_reference/, text);
    }
    await own.org.automate({});
  });

  test('are in no repeat of a refusal that was stored while the consumer saw them', async () => {
    for (const [path, body, pointer] of [
      ['/v1/quotes', quote(), '#/budget'],
      ['/api/v1/handoff', offer({}), '#/result/details/budget'],
    ] as const) {
      const as = await seeing([...five, 'budget', 'status']);
      await ruleOn('Travel_Offer__c', 'Budget__c');
      const repeated = { as, body, headers: keyed() };
      const first = await send(path, repeated);
      await assertProblem(first, 422, 'crm_rejected', pointer);
      const permissions = [{ resource: 'quotes', actions: ['read', 'write'], fields: five }];
      const narrowed = await gateway.request(`/v1/admin/consumers/${as.id}`, {
        ...{ method: 'PATCH', as: gateway.admin, body: { permissions } },
      });
      assert.equal(narrowed.status, 200);
      const again = await send(path, repeated);
      assert.equal(again.headers.get('idempotent-replayed'), 'true');
      const { code, ...problem } = await jsonOf(again, 422);
      assert.equal(code, 'crm_rejected');
      assert.doesNotMatch(JSON.stringify(problem), /Zoe|budget/);
      await own.org.automate({});
    }
  });

  test('are not written by a reservation', async () => {
    const as = await seeing(five);
    const body = newReservation(own.org.memberId);
    const problem = await assertProblem(
      await send('/v1/reservations', { as, body }),
      403,
      'permission_denied',
    );
    assert.match(problem.detail, /travellers/);
  });

  test('are not written by who approves a hand-off, or has it delivered again', async () => {
    const maker = await seeing([...five, 'budget'], { approval: true });
    const approver = await seeing(five);
    const id = (await jsonOf(
      await send('/api/v1/handoff', { as: maker, body: offer({ budget: 100 }) }),
      202,
    )) as { external_id: string };
    const decide = (verdict: string, body?: object) =>
      send(`/v1/handoffs/${id.external_id}/${verdict}`, {
        as: approver,
        method: 'POST',
        ...(body && { body }),
      });
    await assertProblem(await decide('approve'), 403, 'permission_denied');
    await assertProblem(await decide('reject', { reason: 'no' }), 403, 'permission_denied');
    await ruleOn('Travel_Offer__c', 'Stage_Reason__c');
    const failed = await send('/api/v1/handoff', { body: offer({ budget: 100 }), headers: respondAsync });
    const { external_id } = (await jsonOf(failed, 202)) as { external_id: string };
    await untilHandoff(gateway, external_id, ({ status }) => status === 'failed');
    await own.org.automate({});
    const retry = () => send(`/v1/handoffs/${external_id}/retry`, { as: approver, method: 'POST' });
    await assertProblem(await retry(), 403, 'permission_denied');
  });

  test('fail nobody who does not see them while the org lacks them', async () => {
    const as = await seeing([...five, 'status']);
    const made = await send('/v1/quotes', { as, body: quote() });
    const etag = made.headers.get('etag') ?? '';
    const { id } = await jsonOf(made, 201);
    await own.org.change({ missingFields: ['Travel_Offer__c.Nights__c'] });
    try {
      const options = { as, method: 'PATCH', body: { name: 'Inn' } };
      const changed = await send(`/v1/quotes/${String(id)}`, { ...options, headers: { 'if-match': etag } });
      const { name } = await jsonOf(changed, 200);
      assert.equal(name, 'Inn');
      await jsonOf(await send(`/v1/quotes/${String(id)}`, { ...options, body: { name: 'Hut' } }), 200);
      const removed = await send(`/v1/quotes/${String(id)}`, {
        ...{ as, method: 'DELETE' },
        headers: {
          'if-match': (await gateway.request(`/v1/quotes/${String(id)}`, { as })).headers.get('etag') ?? '',
        },
      });
      assert.equal(removed.status, 204, await removed.text());
    } finally {
      await own.org.change({ missingFields: [] });
    }
    await eventually(async () => assert.equal((await send('/v1/quotes', { body: quote() })).status, 201), {
      everyMs: 100,
    });
  });

  test('filters by numbers reach the org as it writes them', async () => {
    const { id } = await jsonOf(await send('/v1/quotes', { body: quote({ budget: 1250 }) }), 201);
    for (const budget of ['1250', '1250.00', '1.25e3', '12500E-1', '0.125E+4'])
      assert.match(
        await (await gateway.request(`/v1/quotes?budget=${encodeURIComponent(budget)}`)).text(),
        new RegExp(String(id)),
        budget,
      );
    for (const budget of ['-0', '0e999', '0E-999', '-0.00', '1E9']) {
      const response = await gateway.request(`/v1/quotes?budget=${encodeURIComponent(budget)}`);
      assert.equal(response.status, 200, `${budget} ${await response.text()}`);
    }
    const wrong = await gateway.request('/v1/quotes?budget=%22');
    await assertProblem(wrong, 400, 'invalid_request', 'budget');
  });
});
