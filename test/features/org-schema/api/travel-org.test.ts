import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import { FeedReader } from '../../../support/feed.ts';
import { type RequestOptions, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { accept, offerFor, respondAsync, untilHandoff } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { assertProblem } from '../../../support/problems.ts';
import { type RecordingProxy, startRecordingProxy } from '../../../support/recording-proxy.ts';

type Json = Record<string, unknown>;

const mappingFile = join(import.meta.dirname, '../../../../simulators/salesforce/orgs/travel.mapping.yaml');
const keyed = () => ({ 'idempotency-key': randomUUID() });

/** A whole service over an org in which no object or field has the name that it has by default. */
describe('an org with objects and fields of its own', () => {
  let own: OwnOrg;
  let crm: RecordingProxy;
  let gateway: TestGateway;
  let secretsDir: string;
  before(async () => {
    own = await startOwnOrg({ org: 'travel' });
    crm = await startRecordingProxy(own.org.url);
    secretsDir = await mkdtemp(join(tmpdir(), 'handoff-travel-'));
    await own.trust(secretsDir);
    gateway = await startGateway({
      ...own.env,
      ...{ CRM_LOGIN_URL: crm.url, CRM_AUDIENCE: own.org.url, CRM_MAPPING_FILE: mappingFile },
      ...{ SECRETS_DIR: secretsDir, CHANGES_POLL_SECONDS: '1', COPY_ENABLED: 'true' },
    });
    await untilTypesAreKnown();
  });
  after(async () => {
    await gateway.stop();
    await crm.close();
    await own.close();
    await rm(secretsDir, { recursive: true });
  });

  const offer = (details: object, change: object = {}) => ({
    ...offerFor(own.org.memberId, change),
    result: { name: 'Hotel Miramar', source: 'hotelbeds', details },
  });
  const handOff = (body: object | string, headers: Record<string, string> = {}) =>
    gateway.request('/api/v1/handoff', { body, headers });
  const quoteWith = (fields: object) => ({
    ...{ trip_id: randomUUID(), member_id: own.org.memberId, name: 'Hotel Miramar', source: 'hotelbeds' },
    ...{ details: { room: 'DBL' }, ...fields },
  });
  const create = (fields: object | string) =>
    gateway.request('/v1/quotes', {
      body: typeof fields === 'string' ? fields : quoteWith(fields),
      headers: keyed(),
    });
  const change = (id: string, body: object | string) =>
    gateway.request(`/v1/quotes/${id}`, { method: 'PATCH', body, headers: keyed() });
  const get = async (path: string, options: RequestOptions = {}) => {
    const response = await gateway.request(path, options);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as Json;
  };
  /** What the copy answers, once it does. */
  const fromCopy = async (path: string) => {
    return eventually(async () => {
      const response = await gateway.request(path, { headers: { 'cache-control': 'max-age=60' } });
      const body = (await response.json()) as Json;
      assert.equal(response.status, 200);
      assert.ok(response.headers.has('age'));
      return body;
    });
  };
  const made = async (answer: Promise<Response>) => {
    const response = await answer;
    const text = await response.text();
    assert.equal(response.status, 201, text);
    return JSON.parse(text) as Json & { id: string; external_id: string };
  };
  const inOrg = async (key: string) =>
    (await own.org.records('Travel_Offer__c', { Gateway_Key__c: key }))[0] ?? {};
  const lacks = async () => ((await get('/v1/healthz')) as { crm: { lacks?: object[] } }).crm.lacks ?? [];

  async function untilTypesAreKnown(): Promise<void> {
    await eventually(async () => {
      const document = await get('/v1/docs');
      assert.ok(document['openapi']);
      assert.ok(JSON.stringify(document).includes('Half board'));
    });
  }

  test('a hand-off fills the fields that the mapping takes from it, and the constants', async () => {
    const { external_id } = await made(
      handOff(offer({ nights: 3, checkIn: '2027-04-12', board: 'Half board' })),
    );
    const { Id: _id, ...record } = await inOrg(external_id);
    const wanted = {
      ...{ Name: 'Hotel Miramar', Supplier__c: 'hotelbeds', Stage__c: 'created', Nights__c: 3 },
      ...{ Check_In__c: '2027-04-12', Board__c: 'Half board', Channel__c: 'Partner', CurrencyIsoCode: 'EUR' },
    };
    assert.deepEqual({ ...record, ...wanted }, record);
    assert.match(String(record['RecordTypeId']), /^012/);
    const plain = await inOrg((await made(handOff(offer({ board: null })))).external_id);
    assert.deepEqual([plain['Nights__c'] ?? null, plain['Board__c'] ?? null], [null, null]);
  });

  test('what a hand-off has there of another type or too long is refused, and nothing is made', async () => {
    const wrong = offer({ nights: 3000, checkIn: '12.4.2027', board: ['x'] });
    for (const headers of [{}, respondAsync]) {
      const problem = await assertProblem(
        await handOff(wrong, headers),
        ...([400, 'invalid_request'] as const),
        ...['#/result/details/board', '#/result/details/checkIn', '#/result/details/nights'],
      );
      assert.match(problem.detail, /#\/result\/details\/nights must have at most 3 digits/);
    }
    assert.deepEqual(await own.org.records('Travel_Offer__c', { Trip_Ref__c: wrong.trip_id }), []);
  });

  test('an accepted hand-off fills them when it is delivered', async () => {
    const id = await accept(gateway, {
      member_id: own.org.memberId,
      result: { name: 'Hotel', source: 's', details: { nights: 7 } },
    });
    await untilHandoff(gateway, id);
    assert.equal((await inOrg(id))['Nights__c'], 7);
  });

  test('records are made, read, changed and emptied with the fields of the org', async () => {
    const fields = {
      ...{ budget: 612.4, nights: 2, check_in: '2027-04-12', valid_until: '2027-03-01T10:00:00+02:00' },
      ...{ flexible: true, wishes: 'Sea view', board: 'Breakfast', extras: ['Parking', 'Transfer'] },
    };
    const quote = await made(create(fields));
    const shown = {
      ...fields,
      valid_until: '2027-03-01T08:00:00.000Z',
      stage_reason: null,
      sales_team: 'Online',
    };
    const { extras: shownExtras, ...others } = { ...quote, extras: quote['extras'] as string[] };
    assert.deepEqual({ ...others, ...shown, extras: undefined }, { ...others, extras: undefined });
    assert.deepEqual(shownExtras.toSorted(), ['Parking', 'Transfer']);
    assert.deepEqual(quote['created_by'], {
      ...(quote['created_by'] as Json),
      consumer_name: null,
      actor: null,
    });
    assert.deepEqual(await get(`/v1/quotes/${quote.id}`), quote);
    const changed = (await (
      await change(quote.id, { budget: null, flexible: null, extras: [], nights: 4 })
    ).json()) as Json;
    assert.deepEqual(
      [changed['budget'], changed['flexible'], changed['extras'], changed['nights'], changed['wishes']],
      [null, false, null, 4, 'Sea view'],
    );
    const removed = await gateway.request(`/v1/quotes/${quote.id}`, { method: 'DELETE', headers: keyed() });
    assert.equal(removed.status, 204);
  });

  test('numbers keep their digits on the way to the org, and on the way back', async () => {
    const body = JSON.stringify(quoteWith({})).replace('{', '{"budget":1234567890.10,');
    await made(create(body));
    assert.ok(crm.seen.some((request) => request.body.includes('"Budget__c":1234567890.10')));
    const { id } = await made(create({ budget: 1 }));
    const row = { ...(await inOrg(id)), attributes: { type: 'Travel_Offer__c' }, Traveller__r: null };
    const text = JSON.stringify({ totalSize: 1, done: true, records: [row] });
    await own.org.arm({
      // Reading changes asks for the same object.
      match: { operation: 'query', object: 'Travel_Offer__c', path: id },
      times: 1,
      effect: {
        ...{ kind: 'error', status: 200, errorCode: 'none', contentType: 'application/json' },
        message: text.replace('"Budget__c":1,', '"Budget__c":1.10,'),
      },
    });
    const answer = await gateway.request(`/v1/quotes/${id}`, { headers: { 'cache-control': 'no-cache' } });
    assert.match(await answer.text(), /"budget":1\.10,/);
  });

  test('wrong values are refused with their pointer, texts that the org holds less of by the CRM', async () => {
    const wrong = {
      ...{ budget: 'much', nights: 1.5, check_in: '2027-02-30', valid_until: 'soon', flexible: 'yes' },
      ...{ wishes: 'x'.repeat(201), board: 'None', extras: ['Parking', 'Sauna'] },
    };
    const pointers = Object.keys(wrong).map((name) => `#/${name}`);
    await assertProblem(await create(wrong), 400, 'invalid_request', ...pointers);
    const { id } = await made(create({}));
    await assertProblem(await change(id, wrong), 400, 'invalid_request', ...pointers);
    await assertProblem(await create({ sales_team: 'x' }), 400, 'invalid_request', '#/sales_team');
    await assertProblem(await create({ name: 'x'.repeat(81) }), 422, 'crm_rejected', '#/name');
    await assertProblem(await create({ source: 'x'.repeat(121) }), 422, 'crm_rejected', '#/source');
  });

  test('lists are filtered by the fields that the mapping names for it', async () => {
    const trip = randomUUID();
    const fields = {
      trip_id: trip,
      budget: 99.5,
      check_in: '2027-05-01',
      flexible: true,
      board: 'Room only',
    };
    const { id } = await made(create(fields));
    await made(create({ trip_id: trip, budget: 98.5 }));
    for (const filter of ['budget=99.50', 'check_in=2027-05-01', 'flexible=true', 'board=Room+only']) {
      const page = (await get(`/v1/quotes?trip_id=${trip}&${filter}`)) as { data: { id: string }[] };
      assert.deepEqual(
        page.data.map((one) => one.id),
        [id],
        filter,
      );
      const copied = await fromCopy(`/v1/quotes?trip_id=${trip}&${filter}`);
      assert.deepEqual(copied, page, filter);
    }
    const other = (await fromCopy(`/v1/quotes?trip_id=${trip}&budget=1`)) as { data: object[] };
    assert.deepEqual(other.data, []);
    for (const [filter, name] of [
      ['budget=much', 'budget'],
      ['flexible=yes', 'flexible'],
      ['board=None', 'board'],
      ['check_in=2027', 'check_in'],
      ['actor=x', 'actor'],
      ['nights=3', 'nights'],
    ] as const)
      await assertProblem(await gateway.request(`/v1/quotes?${filter}`), 400, 'invalid_request', name);
  });

  test('events and the copy have the fields of the org', async () => {
    const reader = new FeedReader((path, options) => gateway.request(path, options));
    const { id } = await made(create({ budget: 12.5, extras: ['Insurance'], flexible: true }));
    const event = await reader.until(({ resource, type }) => resource.id === id && type === 'quote.created');
    assert.deepEqual(
      [event.data['budget'], event.data['extras'], event.data['flexible']],
      [12.5, ['Insurance'], true],
    );
    let age: string | null = null;
    for (let found: Json = {}; age === null; await sleep(100)) {
      const answer = await gateway.request(`/v1/quotes/${id}`, {
        headers: { 'cache-control': 'max-age=600' },
      });
      age = answer.headers.get('age');
      found = (await answer.json()) as Json;
      assert.deepEqual([found['budget'], found['extras']], [12.5, ['Insurance']]);
    }
  });

  test('the documentation has the types and bounds that the org has', async () => {
    const document = (await get('/v1/docs')) as {
      components: { schemas: Record<string, { properties: Record<string, Json> }> };
      paths: Record<string, { get: { parameters: { name: string; schema: Json }[] } }>;
    };
    const { NewQuote, Quote } = document.components.schemas;
    const { budget, wishes, board, extras, flexible, nights } = NewQuote?.properties ?? {};
    assert.deepEqual(budget, { ...budget, type: ['number', 'null'], maximum: 9999999999.99 });
    assert.deepEqual(wishes, { ...wishes, type: ['string', 'null'], maxLength: 200 });
    assert.deepEqual((board as { enum: string[] }).enum.length, 4);
    assert.deepEqual(
      [(extras as Json)['type'], (nights as Json)['type']],
      [
        ['array', 'null'],
        ['integer', 'null'],
      ],
    );
    assert.deepEqual(flexible, { ...flexible, description: 'Whether the dates may change.' });
    assert.ok(Quote?.properties['sales_team'] && !NewQuote?.properties['sales_team']);
    const parameters = document.paths['/v1/quotes']?.get.parameters ?? [];
    const schemaOf = (name: string) => parameters.find((one) => one.name === name)?.schema;
    assert.equal(schemaOf('budget')?.['type'], 'number');
    assert.equal(schemaOf('board')?.['type'], 'string');
    assert.deepEqual([schemaOf('actor'), schemaOf('wishes')], [undefined, undefined]);
    assert.ok(!JSON.stringify(document).includes('x-current-schema'));
  });

  test('a field that breaks and is repaired fails the requests that need it, and no others', async () => {
    const { external_id: id } = await made(handOff(offer({ nights: 3 })));
    const other = await made(handOff(offer({})));
    await own.org.change({ missingFields: ['Travel_Offer__c.Nights__c'] });
    const inNeed = [
      () => gateway.request(`/v1/quotes/${id}`),
      () => gateway.request('/v1/quotes', { headers: { 'cache-control': 'no-cache' } }),
      () => create({}),
      () => change(id, { name: 'x' }),
      () => handOff(offer({ nights: 3 })),
    ];
    for (const send of inNeed) {
      const problem = await assertProblem(await send(), 502, 'crm_error');
      // By the error of the org, or by an answer without it.
      assert.match(problem.detail, /nights \(Travel_Offer__c\.Nights__c\) (doesn't exist|wasn't returned)/);
    }
    await made(handOff(offer({})));
    const booking = { ...quoteWith({}), total: 10 };
    await made(gateway.request('/v1/bookings', { body: booking, headers: keyed() }));
    const removed = await gateway.request(`/v1/quotes/${other.external_id}`, {
      method: 'DELETE',
      headers: keyed(),
    });
    assert.equal(removed.status, 204);
    const misfit = { object: 'Travel_Offer__c', field: 'Nights__c' };
    for (let found: object[] = []; found.length === 0; await sleep(50)) {
      found = await lacks();
      if (found.length > 0)
        assert.deepEqual(found, [
          { ...misfit, problem: "doesn't exist, or the integration user can't see it" },
        ]);
    }
    assert.match(
      await (await fetch(`${gateway.operationsUrl}/metrics`)).text(),
      /^handoff_crm_schema_faults(\{.*\})? 1$/m,
    );
    assert.equal((await gateway.request('/v1/healthz')).status, 200);
    const logged = gateway.logLines.filter((line) => line.facts['field'] === 'Nights__c');
    assert.equal(logged.length, 1);
    await own.org.change({ missingFields: [] });
    await eventually(async () => assert.equal((await gateway.request(`/v1/quotes/${id}`)).status, 200), {
      everyMs: 200,
    });
    assert.equal((await get(`/v1/quotes/${id}`))['nights'], 3);
    await eventually(async () => assert.ok((await lacks()).length <= 0), { everyMs: 50 });
  });

  test('a constant that the org does not take is named', async () => {
    await own.org.change({ missingFields: ['Travel_Offer__c.Channel__c'] });
    const problem = await assertProblem(await handOff(offer({})), 502, 'crm_error');
    assert.match(problem.detail, /Travel_Offer__c\.Channel__c/);
    await own.org.change({ missingFields: [] });
    await eventually(async () => assert.equal((await handOff(offer({}))).status, 201), { everyMs: 200 });
  });

  test('the file is checked before anything starts', async () => {
    const file = join(import.meta.dirname, '../../../../package.json');
    await assert.rejects(
      startGateway({ CRM_MAPPING_FILE: file }),
      /package\.json:\d+:\d+: version must be 1/,
    );
    await assert.rejects(
      startGateway({ CRM_MAPPING_FILE: '/none.yaml' }),
      /crm\.mappingFile .*can't be read/,
    );
  });
});
