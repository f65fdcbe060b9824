import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import type { ProblemBody } from '../../../support/problems.ts';

type Json = Record<string, unknown>;
interface Lack {
  object: string;
  field: string | null;
  problem: string;
}

const offers = 'Travel_Offer__c';
const mappingFile = join(import.meta.dirname, '../../../../simulators/salesforce/orgs/travel.mapping.yaml');

/** What an administrator changes, in the description of the org; `null` takes it back. */
const fields = (changes: Json) => ({ objects: { [offers]: { fields: changes } } });

/** The chapter "An administrator changes the org" of docs/rehearsal.md, change by change. */
describe('an administrator changes the org', () => {
  let own: OwnOrg;
  let gateway: TestGateway;
  let secretsDir: string;
  before(async () => {
    own = await startOwnOrg({ org: 'travel' });
    secretsDir = await mkdtemp(join(tmpdir(), 'handoff-rehearsal-'));
    await own.trust(secretsDir);
    gateway = await startGateway({ ...own.env, CRM_MAPPING_FILE: mappingFile, SECRETS_DIR: secretsDir });
    await until(async () => (await handOff()).status === 201);
  });
  after(async () => {
    await gateway.stop();
    await own.close();
    await rm(secretsDir, { recursive: true });
  });

  const change = async (body: object) => {
    const response = await fetch(`${own.org.url}/simulator/org`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200, await response.text());
  };
  const handOff = (details: object = {}, headers: Record<string, string> = {}) =>
    gateway.request('/api/v1/handoff', {
      body: { ...offerFor(own.org.memberId), result: { name: 'Hotel', source: 'hotelbeds', details } },
      headers,
    });
  const create = (more: object = {}) =>
    gateway.request('/v1/quotes', {
      body: {
        ...{ trip_id: randomUUID(), member_id: own.org.memberId, name: 'Hotel', source: 'hotelbeds' },
        ...{ details: {}, ...more },
      },
      headers: { 'idempotency-key': randomUUID() },
    });
  const health = async () => {
    const response = await gateway.request('/v1/healthz');
    return ((await response.json()) as { crm: Json & { lacks?: Lack[] } }).crm;
  };
  const lacks = async () => (await health()).lacks ?? [];
  const rejected = async (object: string, code: string) => {
    const line = new RegExp(
      `^handoff_crm_rejected_total\\{object="${object}",code="${code}"\\} (\\d+)$`,
      'm',
    );
    return Number(line.exec(await gateway.metrics())?.[1] ?? 0);
  };

  /** What a caller is told of a change: a fault of the org, named. */
  async function assertMisfit(response: Response, named: RegExp): Promise<void> {
    const problem = (await response.json()) as ProblemBody;
    assert.deepEqual([response.status, problem.code], [502, 'crm_error'], JSON.stringify(problem));
    assert.match(problem.detail, named);
    assert.match(problem.detail, /Ask its operator to undo the change in Salesforce/);
  }

  /** What operators are told: crm.lacks, the metric and one line of the log. */
  async function assertLacks(field: string | null, problem: RegExp, object = offers): Promise<void> {
    const named = async () =>
      (await lacks()).filter((one) => one.object === object && one.field === field)[0]?.problem ?? '';
    await until(async () => problem.test(await named()));
    assert.match(await gateway.metrics(), /^handoff_crm_schema_faults(\{.*\})? [1-9]/m);
    const lines = gateway.logLines.filter(
      ({ facts }) => facts['object'] === object && facts['field'] === field,
    );
    assert.ok(lines.some(({ facts }) => problem.test(String(facts['problem']))));
  }

  /** Undoes a change; the service goes on by itself. */
  async function repair(undo: object, send: () => Promise<Response> = () => handOff()): Promise<void> {
    await change(undo);
    await until(async () => (await send()).status === 201);
  }

  test('1 makes a field required', async () => {
    await change(fields({ Cost_Centre__c: { required: true } }));
    await assertMisfit(await handOff(), /Travel_Offer__c\.Cost_Centre__c is required in new records/);
    await assertLacks('Cost_Centre__c', /is required in new records/);
    assert.ok((await rejected(offers, 'REQUIRED_FIELD_MISSING')) > 0);
    await repair(fields({ Cost_Centre__c: { required: null } }));
    // One that the API has, and that a caller may leave out.
    await change(fields({ Special_Wishes__c: { required: true } }));
    await assertMisfit(await handOff(), /Travel_Offer__c\.Special_Wishes__c is required/);
    assert.equal((await create({ wishes: 'Sea view' })).status, 201);
    await repair(fields({ Special_Wishes__c: { required: null } }));
  });

  test('2 takes the value away that new records get', async () => {
    const { values } = (await fieldsNow())['Stage__c'] as unknown as { values: Json[] };
    await change(fields({ Stage__c: { values: values.slice(1) } }));
    await assertMisfit(
      await handOff(),
      /status \(Travel_Offer__c\.Stage__c\) doesn't accept the value created/,
    );
    await assertLacks('Stage__c', /doesn't accept the value created/);
    await repair(fields({ Stage__c: { values } }));
  });

  test('3 gives a field another type', async () => {
    await change(fields({ Budget__c: { type: 'text', length: 40, precision: null, scale: null } }));
    await assertMisfit(await create({ budget: 612.4 }), /budget \(Travel_Offer__c\.Budget__c\) was a number/);
    await assertMisfit(
      await create({ budget: 612.4 }),
      /is text now; restart the gateway to use it as it is/,
    );
    await assertLacks('Budget__c', /was a number when the gateway started and is text now/);
    assert.equal((await create({ budget: 'about 600' })).status, 201);
    assert.equal((await handOff()).status, 201);
    await change(fields({ Budget__c: { type: 'currency', precision: 12, scale: 2, length: null } }));
    await until(async () => (await create({ budget: 612.4 })).status === 201);
  });

  test('4 makes an object read only', async () => {
    await change({ objects: { [offers]: { access: 'read' } } });
    await assertMisfit(await handOff(), /needs it: Travel_Offer__c can't be written by the integration user/);
    await assertLacks(null, /can't be written/);
    await repair({ objects: { [offers]: { access: null } } });
  });

  test('takes the rights to delete, and to view all members, away', async () => {
    const { id } = (await (await create()).json()) as { id: string };
    const remove = () =>
      gateway.request(`/v1/quotes/${id}`, {
        method: 'DELETE',
        headers: { 'idempotency-key': randomUUID() },
      });
    await change({ objects: { [offers]: { deletable: false }, Traveller__c: { viewAll: false } } });
    await assertMisfit(await remove(), /needs it: Travel_Offer__c can't be deleted by the integration user/);
    await assertLacks(null, /can't be deleted by the integration user/);
    await assertLacks(null, /lacks View All Records/, 'Traveller__c');
    assert.equal((await handOff()).status, 201);
    await change({ objects: { [offers]: { deletable: null }, Traveller__c: { viewAll: null } } });
    await until(async () => (await remove()).status === 204);
    await until(async () => (await lacks()).length === 0);
  });

  test('5 deletes a field', async () => {
    const { Nights__c } = await fieldsNow();
    await change(fields({ Nights__c: null }));
    await assertMisfit(await handOff({ nights: 3 }), /nights \(Travel_Offer__c\.Nights__c\) doesn't exist/);
    await assertLacks('Nights__c', /doesn't exist, or the integration user can't see it/);
    assert.equal((await handOff()).status, 201);
    await repair(fields({ Nights__c }), () => handOff({ nights: 3 }));
  });

  test('6 takes the right to edit a field away', async () => {
    await change(fields({ Supplier__c: { access: 'read' } }));
    await assertMisfit(await handOff(), /source \(Travel_Offer__c\.Supplier__c\) can't be written/);
    await assertLacks('Supplier__c', /can't be written/);
    await repair(fields({ Supplier__c: { access: null } }));
  });

  test('7 shortens a field', async () => {
    await change(fields({ Trip_Ref__c: { length: 30 } }));
    await assertMisfit(
      await handOff(),
      /trip_id \(Travel_Offer__c\.Trip_Ref__c\) holds 30 characters, but needs 36/,
    );
    await assertLacks('Trip_Ref__c', /holds 30 characters/);
    await repair(fields({ Trip_Ref__c: { length: 36 } }));
    // A text of the caller's own is the caller's to shorten.
    await change(fields({ Supplier__c: { length: 5 } }));
    const response = await handOff();
    const { code, errors } = (await response.json()) as ProblemBody;
    assert.deepEqual([response.status, code], [422, 'crm_rejected']);
    assert.deepEqual(errors, [{ pointer: '#/result/source', message: 'is longer than 5 characters.' }]);
    await change(fields({ Supplier__c: { length: 120 } }));
    assert.equal((await handOff()).status, 201);
  });

  test('8 takes a value out of a picklist that callers write, and puts it back', async () => {
    const { values } = (await fieldsNow())['Board__c'] as unknown as { values: string[] };
    await change(fields({ Board__c: { values: values.filter((value) => value !== 'Half board') } }));
    const response = await handOff({ board: 'Half board' });
    const { code, errors } = (await response.json()) as ProblemBody;
    assert.deepEqual([response.status, code], [422, 'crm_rejected']);
    const allowed = "isn't one of the values that the CRM allows: Room only, Breakfast, Full board.";
    assert.deepEqual(errors, [{ pointer: '#/result/details/board', message: allowed }]);
    const document = JSON.stringify(await (await gateway.request('/v1/docs')).json());
    assert.ok(document.includes('Room only') && !document.includes('Half board'));
    assert.equal((await handOff({ board: 'Breakfast' })).status, 201);
    await change(fields({ Board__c: { values } }));
    await until(async () => (await handOff({ board: 'Half board' })).status === 201);
    await until(async () => (await lacks()).length === 0);
  });

  test('makes a picklist of a text that callers write: the answer and the documents have its values', async () => {
    const texts = fields({ Supplier__c: { type: 'text', length: 120, values: null, restricted: null } });
    const picklist = { type: 'picklist', restricted: true, values: ['hotelbeds', 'ratehawk'], length: 255 };
    await change(fields({ Supplier__c: picklist }));
    await change({ objects: { Trip_Booking__c: { fields: { Supplier__c: picklist } } } });
    const response = await create({ source: 'amadeus' });
    const { errors } = (await response.json()) as ProblemBody;
    assert.equal(response.status, 422);
    const message = "isn't one of the values that the CRM allows: hotelbeds, ratehawk.";
    assert.deepEqual(errors, [{ pointer: '#/source', message }]);
    const document = (await (await gateway.request('/v1/docs')).json()) as {
      components: { schemas: Record<string, { properties: Record<string, Json> }> };
    };
    const { NewQuote, NewHandoff } = document.components.schemas;
    assert.deepEqual(NewQuote?.properties['source']?.['enum'], picklist.values);
    const { properties = {} } = (NewHandoff?.properties['result'] ?? {}) as {
      properties?: Record<string, Json>;
    };
    assert.deepEqual(properties['source']?.['enum'], picklist.values);
    await change(texts);
    await change({ objects: { Trip_Booking__c: texts.objects[offers] as object } });
    assert.equal((await create({ source: 'amadeus' })).status, 201);
  });

  test('deploys fields for longer details, which are taken at the next request', async () => {
    const { Payload_8__c } = await fieldsNow();
    await change(fields({ Payload_8__c: null }));
    const long = { text: 'x'.repeat(1_000_000) };
    const refused = await handOff(long);
    assert.equal(refused.status, 422, await refused.text());
    await change(fields({ Payload_8__c }));
    await until(async () => (await handOff(long)).status === 201);
  });

  test('9 takes the record type away', async () => {
    await change({ objects: { [offers]: { recordTypes: { Travel: { available: false } } } } });
    await assertMisfit(
      await handOff(),
      /Travel_Offer__c\.RecordTypeId has the record type Travel, which the integration user can't use/,
    );
    await assertLacks('RecordTypeId', /record type Travel/);
    await repair({ objects: { [offers]: { recordTypes: { Travel: { available: null } } } } });
  });

  test('10 lets the version of the API go', async () => {
    await change({ newestVersion: 66 });
    for (let read = 0; read < 3; read++) {
      const response = await gateway.request('/v1/quotes', { headers: { 'cache-control': 'no-cache' } });
      const problem = (await response.json()) as ProblemBody;
      assert.deepEqual([response.status, problem.code], [502, 'crm_error']);
      assert.match(problem.detail, /doesn't offer version 68\.0 of its API, only 31\.0 to 66\.0/);
    }
    const { connected, reason } = await health();
    assert.deepEqual([connected, reason], [false, 'version']);
    assert.equal((await gateway.request('/v1/healthz')).status, 503);
    await sleep(2500);
    assert.deepEqual((await health())['connected'], false);
    await change({ newestVersion: null });
    await until(async () => (await health())['connected'] === true);
  });

  test('11 deploys a trigger that fails, and a flow', async () => {
    const throwing = { kind: 'throw' };
    await change({
      objects: { [offers]: { triggers: [{ name: 'OfferScore', on: ['afterInsert'], action: throwing }] } },
    });
    const response = await handOff();
    const { code, errors } = (await response.json()) as ProblemBody;
    assert.deepEqual([response.status, code], [422, 'crm_rejected']);
    assert.deepEqual(errors, [{ pointer: '', message: 'its trigger or flow OfferScore failed.' }]);
    const logged = gateway.logLines.filter(({ message }) => message === 'Salesforce refused a record').at(-1);
    assert.match(JSON.stringify(logged?.facts['errors']), /"thrown_by":"OfferScore"/);
    assert.ok((await rejected(offers, 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY')) > 0);
    const flow = {
      name: 'Score the offer',
      on: ['afterInsert'],
      action: { kind: 'flowFault', message: 'No score' },
    };
    await change({ objects: { [offers]: { triggers: [flow] } } });
    const ofFlow = (await (await handOff()).json()) as ProblemBody;
    assert.deepEqual(ofFlow.errors, [{ pointer: '', message: 'No score (Score the offer)' }]);
    await change({ objects: { [offers]: { triggers: [] } } });
    assert.equal((await handOff()).status, 201);
    assert.deepEqual(await lacks(), []);
  });

  test('12 locks the integration user out', async () => {
    await own.org.arm({
      match: {},
      effect: { kind: 'tokenError', error: 'invalid_grant', description: 'ip restricted' },
    });
    await own.org.revokeTokens();
    const response = await handOff();
    assert.equal(response.status, 503);
    await until(async () => (await health())['connected'] === false);
    const { reason, sign_in, advice } = await health();
    assert.deepEqual(
      [reason, sign_in],
      ['sign_in', { error: 'invalid_grant', error_description: 'ip restricted' }],
    );
    assert.match(String(advice), /address/);
    const line = gateway.logLines.findLast(({ message }) => message === 'Salesforce gave no access token');
    assert.deepEqual(
      [line?.facts['error'], line?.facts['error_description']],
      ['invalid_grant', 'ip restricted'],
    );
  });

  async function fieldsNow(): Promise<Record<string, Json>> {
    const response = await fetch(`${own.org.url}/simulator/org`);
    const { objects } = (await response.json()) as {
      objects: Record<string, { fields: Record<string, Json> }>;
    };
    return objects[offers]?.fields ?? {};
  }
});

function until(isTrue: () => Promise<boolean>): Promise<void> {
  return eventually(async () => assert.ok(await isTrue()), { everyMs: 100 });
}
