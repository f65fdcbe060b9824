import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { after, afterEach, before, describe, it } from 'node:test';
import { endOf, fetchVersions } from '../../src/crm/rest/api-versions.ts';
import { failureOf } from '../../src/crm/rest/errors.ts';
import { crmProblem } from '../../src/crm/rest/problems.ts';
import type { CrmRequest } from '../../src/crm/rest/request.ts';
import type { Problem } from '../../src/platform/base/problem.ts';
import { createHttp } from '../../src/platform/http/http.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { aCall, type CrmHarness, quoteFor, startCrmHarness } from './crm-harness.ts';

const memberKey = '8673c1d4-1752-87ae-aa59-227b6cc68c14';
const creation = {
  operation: 'create',
  effect: 'create',
  method: 'POST',
  path: '/services/data/v68.0/sobjects/Quote__c',
  body: { Name__c: 'A hotel', Member__r: { External_Id__c: memberKey } },
  resource: quote,
} satisfies CrmRequest;

function problemOf(error: object, request: CrmRequest = creation, status = 400): Problem {
  return crmProblem(failureOf({ status, headers: {}, body: [error] }, request), request);
}

describe('a refusal means the same in every language', () => {
  for (const message of [
    `Foreign key external ID: ${memberKey} not found for field External_Id__c in entity Contact`,
    `Externe Fremdschlüssel-ID: ${memberKey} wurde für Feld External_Id__c in Entität Contact nicht gefunden`,
    `項目 External_Id__c の外部 ID「${memberKey.toUpperCase()}」が見つかりません`,
  ])
    it(`of a member that is not there: ${message.slice(0, 25)}`, () => {
      assert.equal(problemOf({ errorCode: 'INVALID_FIELD', message }).code, 'member_not_found');
    });

  for (const message of [
    "No such column 'Source__c' on sobject of type Quote__c",
    'Keine Spalte „Source__c“ für Objekttyp Quote__c',
    'Quote__c に列「Source__c」がありません',
  ])
    it(`of a field that is not there: ${message.slice(0, 20)}`, () => {
      const { code, message: detail } = problemOf({ errorCode: 'INVALID_FIELD', message });
      assert.equal(code, 'crm_error');
      assert.match(detail, /has no field for source /);
    });

  it('of a text that is too long', () => {
    const message = 'Name: Datenwert zu groß: Room 1234567 (maximale Länge=80)';
    const { errors } = problemOf({ errorCode: 'STRING_TOO_LONG', message, fields: ['Name__c'] }).facts;
    assert.deepEqual(errors, [{ pointer: '#/name', message: 'is longer than 80 characters.' }]);
  });

  it('of a record type that the user may not use: no member is missing', () => {
    const refusal = { errorCode: 'INVALID_CROSS_REFERENCE_KEY', message: 'x', fields: ['RecordTypeId'] };
    const { code, message } = problemOf(refusal);
    assert.equal(code, 'crm_error');
    assert.match(message, /sets as RecordTypeId. Ask its operator/);
    assert.equal(problemOf({ ...refusal, fields: [] }).code, 'member_not_found');
    assert.equal(problemOf({ ...refusal, fields: ['Member__c'] }).code, 'member_not_found');
    const withoutMember = { ...creation, body: { Name__c: 'A hotel' } };
    assert.equal(problemOf({ ...refusal, fields: [] }, withoutMember).code, 'crm_error');
  });

  it('of a field that the user may not write', () => {
    const refusal = { errorCode: 'INVALID_FIELD_FOR_INSERT_UPDATE', message: 'x', fields: ['Source__c'] };
    assert.match(problemOf(refusal).message, /doesn't let the gateway write source. Ask its operator/);
  });

  it('of a duplicate rule, whose name is for the log only', () => {
    const duplicateResult = { allowSave: true, duplicateRule: 'Same_Trip', matchResults: [] };
    const refusal = {
      duplicateResult,
      errorCode: 'DUPLICATES_DETECTED',
      message: 'Use one of these records?',
    };
    const { code, message, cause } = problemOf(refusal);
    assert.equal(code, 'crm_rejected');
    assert.match(message, /duplicate rule of the CRM takes it for a record that is there already/);
    assert.ok(!message.includes('Same_Trip'));
    assert.equal((cause as ReturnType<typeof failureOf>).facts.errors?.[0]?.rule, 'Same_Trip');
  });
});

describe('an org with rules, whose user speaks German', () => {
  let harness: CrmHarness;
  before(async () => {
    harness = await startCrmHarness();
    await harness.org.configure({ language: 'de' });
  });
  afterEach(async () => {
    await harness.org.change({ newestVersion: null, objects: { Quote__c: { duplicateRules: null } } });
  });
  after(() => harness.stop());

  const create = (crm = harness.crm, changes = {}, member = harness.memberId) =>
    crm.records.create(quote, randomUUID(), quoteFor(member, changes), aCall());

  it('refuses a quote for a member that is not there', async () => {
    await assert.rejects(create(harness.crm, {}, randomUUID()), { code: 'member_not_found' });
  });

  it('refuses what a duplicate rule warns of, or saves it, alone and read back', async () => {
    const rule = { name: 'SameSource', fields: ['Source__c'], action: 'alert', message: 'Is it this one?' };
    await harness.org.change({ objects: { Quote__c: { duplicateRules: [rule] } } });
    const { crm } = harness.addReplica({ duplicateRules: 'allow' });
    const source = `supplier-${randomUUID()}`;
    await create(harness.crm, { source });
    await assert.rejects(create(harness.crm, { source }), { code: 'crm_rejected' });
    await create(crm, { source });
    const values = quoteFor(harness.memberId, { source });
    assert.ok(await crm.records.createAndRead(quote, randomUUID(), values, aCall()));
    const block = [{ ...rule, action: 'block' }];
    await harness.org.change({ objects: { Quote__c: { duplicateRules: block } } });
    await assert.rejects(create(crm, { source }), { code: 'crm_rejected' });
  });

  it('says that it does not have the version, and not that a record is missing', async () => {
    await harness.org.change({ newestVersion: 66 });
    const { crm } = harness.addReplica();
    const gone = { nativeId: 'a00000000000001AAA' };
    await assert.rejects(crm.records.remove(quote, gone, aCall()), (error: Problem) => {
      assert.equal(error.code, 'crm_error');
      assert.match(error.message, /doesn't offer version 68\.0 of its API, only 31\.0 to 66\.0/);
      return true;
    });
    const { crm: old } = harness.addReplica({ apiVersion: '30.0' });
    await assert.rejects(create(old), { code: 'crm_error', message: /version 30\.0/ });
    const { crm: right } = harness.addReplica({ apiVersion: '66.0' });
    const made = await create(right);
    await right.records.remove(quote, made, aCall());
    await assert.rejects(right.records.remove(quote, made, aCall()), { code: 'not_found' });
  });
});

describe('calls', () => {
  const seen: { url: string; headers: IncomingHttpHeaders; body: string }[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = Buffer.concat(await request.toArray()).toString();
    seen.push({ url: request.url ?? '', headers: request.headers, body });
    const token = { access_token: '00D!x', instance_url: origin() };
    response.end(
      JSON.stringify(request.url?.endsWith('/token') ? token : [{ version: '68.0' }, { other: 1 }]),
    );
  };
  const server = createServer((request, response) => void answer(request, response));
  const origin = () => `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
  after(() => server.close());

  it('know when versions end', () => {
    assert.deepEqual([endOf('41.0'), endOf('30.0')], [undefined, 'retired since summer 2025']);
    assert.match(endOf('31.0') ?? '', /summer 2027.*summer 2028/);
  });

  it('ask for the versions without a token', async () => {
    const http = createHttp(1000);
    assert.deepEqual(await fetchVersions(http, origin(), 1000), ['68.0']);
    assert.equal(seen.at(-1)?.headers.authorization, undefined);
    await http.close();
  });

  it('name the client, and in a part that creates what duplicate rules may do', async () => {
    const changes = { loginUrl: origin(), audience: origin(), duplicateRules: 'allow' } as const;
    const harness = await startCrmHarness();
    const { crm } = harness.addReplica(changes);
    const values = quoteFor(randomUUID());
    await assert.rejects(crm.records.createAndRead(quote, randomUUID(), values, aCall()));
    const call = seen.find(({ url }) => url.endsWith('/composite'));
    assert.equal(call?.headers['sforce-call-options'], 'client=handoff-gateway');
    const parts = (JSON.parse(call.body) as { compositeRequest: { httpHeaders?: object }[] })
      .compositeRequest;
    assert.deepEqual(
      parts.map(({ httpHeaders }) => httpHeaders),
      [{ 'Sforce-Duplicate-Rule-Header': 'allowSave=true' }, undefined],
    );
    await harness.stop();
  });
});
