import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { accept, offerFor, readHandoff, untilHandoff } from '../../../support/handoffs.ts';
import { pastSlowStore } from '../../../support/problems.ts';

/** Written by the trigger's author: it throws over a record with this in its name. */
const poison = 'poison';
const many = 200;
/** What one record that fails its neighbours may cost. */
const furtherCalls = 16;

interface Answer {
  status: number;
  body: { code?: string; errors?: { pointer: string; message: string }[]; id?: string; name?: string };
  etag: string | null;
}

/** In front of two slots, so that 200 requests wait for one and go together. */
describe('a record that fails all others of its call', () => {
  const gateway = useGateway({ CRM_MAX_CONCURRENCY: '2', CRM_TIMEOUT_MS: '20000' });
  afterEach(async () => {
    await gateway.org.automate({});
    await gateway.org.disarm();
  });

  const memberId = () => gateway.org.memberId;
  const keyed = () => ({ 'idempotency-key': randomUUID() });
  const valuesOf = (name: string) => ({
    ...{ trip_id: randomUUID(), member_id: memberId(), name, source: 'hotelbeds', details: { net: 1 } },
  });
  const handoffOf = (name: string) =>
    offerFor(memberId(), { result: { name, source: 'hotelbeds', details: { net: 1 } } });
  const send = async (method: string, path: string, body?: object, headers = keyed()): Promise<Answer> => {
    const once = async () => {
      const response = await gateway.request(path, { method, headers, ...(body && { body }) });
      return { response, text: await response.text() };
    };
    const { response, text } = await pastSlowStore(once, (answer) => answer.text);
    return {
      status: response.status,
      body: text === '' ? {} : JSON.parse(text),
      etag: response.headers.get('etag'),
    };
  };
  const trigger = (on: string, action: object, when: object = { field: 'Name__c', contains: poison }) =>
    gateway.org.automate({ triggers: [{ name: 'Audit', object: 'Quote__c', on: [on], when, action }] });
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    const lines = text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  };
  /** But for the look at the objects that is due once an hour. */
  const metered = async () =>
    ((await gateway.org.counters())['metered'] as number) -
    (await metric('handoff_crm_calls_total{operation="describe"}'));

  /** Holds both slots until so many requests wait for one, and says how many calls beyond a batch's first one were made. */
  async function together<T>(works: (() => Promise<T>)[]): Promise<{ answers: T[]; further: number }> {
    const path = `/v1/quotes?limit=1&trip_id=${randomUUID()}`;
    const calls = await metered();
    const batches = await metric('handoff_crm_batch_size_count');
    const hold = await gateway.org.arm({ match: { operation: 'query' }, effect: { kind: 'hold' }, times: 2 });
    const held = [gateway.request(path), gateway.request(path)];
    await hold.hit(2);
    let answered = 0;
    const asked = works.map((work) => work().finally(() => (answered += 1)));
    // The held calls may reach their time limit before a busy machine has queued the last one: then others are answered by now.
    await eventually(async () =>
      assert.ok((await metric('handoff_crm_queue_depth')) + answered >= works.length),
    );
    await hold.release();
    const answers = await Promise.all(asked);
    for (const response of await Promise.all(held)) await response.arrayBuffer();
    const all = (await metered()) - calls - held.length;
    return { answers, further: all - ((await metric('handoff_crm_batch_size_count')) - batches) };
  }

  const names = (label: string, at = 77) =>
    Array.from({ length: many }, (_, n) => (n === at ? `${label} ${poison}` : `${label} ${n}`));
  const stored = async (label: string) =>
    (await gateway.org.records('Quote__c'))
      .map((row) => String(row['Name__c']))
      .filter((name) => name.startsWith(label));
  const good = (label: string, at?: number) => names(label, at).filter((name) => !name.includes(poison));

  /** 199 are done, one is refused. */
  function assertOneRefused(answers: Answer[], status: number, at = 77): void {
    for (const [n, answer] of answers.entries())
      assert.equal(answer.status, n === at ? 422 : status, JSON.stringify(answer));
    assert.equal(answers[at]?.body.code, 'crm_rejected');
  }

  const actions: Record<string, [string, object]> = {
    'an exception before the insert': ['beforeInsert', { kind: 'throw' }],
    'an exception after the insert': ['afterInsert', { kind: 'throw' }],
    'a flow': ['afterInsert', { kind: 'flowFault' }],
    'a limit that one record exceeds': ['afterInsert', { kind: 'limit' }],
  };
  for (const [name, [event, action]] of Object.entries(actions)) {
    test(`${name}: 199 of 200 hand-offs are made once, one is refused`, async () => {
      await trigger(event, action);
      const label = randomUUID();
      const { answers, further } = await together(
        names(label).map((each) => () => send('POST', '/api/v1/handoff', handoffOf(each))),
      );
      assertOneRefused(answers, 201);
      assert.ok(further <= furtherCalls, `${further} further calls`);
      assert.deepEqual((await stored(label)).sort(), good(label).sort());
    });
  }

  test('POST: each of 199 gets its record as it is, and a repeat the same; one is refused', async () => {
    await trigger('beforeInsert', { kind: 'throw' });
    const label = randomUUID();
    const splits = await metric('handoff_crm_batch_splits_total');
    const requests = names(label, 0).map((each) => ({ body: valuesOf(each), headers: keyed() }));
    const works = requests.map(
      ({ body, headers }) =>
        () =>
          send('POST', '/v1/quotes', body, headers),
    );
    const { answers, further } = await together(works);
    assertOneRefused(answers, 201, 0);
    assert.ok(further <= furtherCalls, `${further} further calls`);
    for (const [n, { body, etag }] of answers.entries()) {
      if (n === 0) continue;
      assert.equal(body.name, requests[n]?.body.name);
      assert.ok(etag);
    }
    assert.deepEqual((await stored(label)).sort(), good(label, 0).sort());
    const repeats = await Promise.all(works.slice(0, 5).map((work) => work()));
    assert.deepEqual(
      repeats.map(({ body }) => body.id),
      answers.slice(0, 5).map(({ body }) => body.id),
    );
    assert.ok((await metric('handoff_crm_batch_splits_total')) > splits);
  });

  test('PATCH and DELETE: 199 of 200 are done, one is refused', async () => {
    const label = randomUUID();
    const made = await Promise.all(names(label).map((each) => send('POST', '/v1/quotes', valuesOf(each))));
    await trigger('afterUpdate', { kind: 'throw' });
    const source = `changed ${label}`;
    const changes = await together(
      made.map(
        ({ body }) =>
          () =>
            send('PATCH', `/v1/quotes/${body.id}`, { source }),
      ),
    );
    assertOneRefused(changes.answers, 200);
    assert.ok(changes.further <= furtherCalls, `${changes.further} further calls`);
    const rows = await gateway.org.records('Quote__c', { Source__c: source });
    assert.deepEqual(rows.map((row) => String(row['Name__c'])).sort(), good(label).sort());
    await trigger('beforeDelete', { kind: 'throw' });
    const removals = await together(
      made.map(
        ({ body }) =>
          () =>
            send('DELETE', `/v1/quotes/${body.id}`),
      ),
    );
    assertOneRefused(removals.answers, 204);
    assert.ok(removals.further <= furtherCalls, `${removals.further} further calls`);
    assert.deepEqual(await stored(label), [`${label} ${poison}`]);
  });

  test('a lock that a trigger finds passes, and nobody is refused', async () => {
    const triggers = [
      { name: 'Audit', object: 'Quote__c', on: ['afterInsert'], action: { kind: 'lock' }, times: 2 },
    ];
    await gateway.org.automate({ triggers });
    const label = randomUUID();
    const { answers, further } = await together(
      names(label, -1).map((each) => () => send('POST', '/api/v1/handoff', handoffOf(each))),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
    assert.ok(further <= furtherCalls, `${further} further calls`);
    assert.equal((await stored(label)).length, many);
  });

  test('a lock that stays is 503 for its record alone', async () => {
    await trigger('afterInsert', { kind: 'lock' });
    const label = randomUUID();
    const { answers, further } = await together(
      names(label).map((each) => () => send('POST', '/v1/quotes', valuesOf(each))),
    );
    for (const [n, { status }] of answers.entries()) assert.equal(status, n === 77 ? 503 : 201);
    assert.equal(answers[77]?.body.code, 'crm_unavailable');
    assert.ok(further <= furtherCalls, `${further} further calls`);
    assert.deepEqual((await stored(label)).sort(), good(label).sort());
  });

  test('records with faults of their own are refused, those that were refused with them are made', async () => {
    const rule = { name: 'Closed', object: 'Quote__c', when: { field: 'Source__c', equals: 'closed' } };
    await gateway.org.automate({
      triggers: [
        {
          name: 'Audit',
          object: 'Quote__c',
          on: ['afterInsert'],
          when: { rowsBelow: 150, rowsAbove: 1 },
          times: 1,
          action: { kind: 'throw' },
        },
      ],
      validationRules: [{ ...rule, message: 'The trip is <b>closed</b>.' }],
    });
    const label = randomUUID();
    const isClosed = (n: number) => n % 3 === 0;
    const { answers, further } = await together(
      names(label, -1).map((name, n) => () => {
        const values = isClosed(n) ? { source: 'closed' } : {};
        return send('POST', '/v1/quotes', { ...valuesOf(name), ...values });
      }),
    );
    for (const [n, { status, body }] of answers.entries()) {
      assert.equal(status, isClosed(n) ? 422 : 201);
      if (isClosed(n)) assert.deepEqual(body.errors, [{ pointer: '', message: 'The trip is closed.' }]);
    }
    assert.ok(further <= 3, `${further} further calls`);
    assert.equal((await stored(label)).length, answers.filter(({ status }) => status === 201).length);
  });

  test('an object that takes few records gets smaller calls from then on', async () => {
    await trigger('afterInsert', { kind: 'limit' }, { rowsAbove: 60 });
    const label = randomUUID();
    const works = names(label, -1).map((each) => () => send('POST', '/api/v1/handoff', handoffOf(each)));
    const first = await together(works);
    assert.deepEqual(new Set(first.answers.map(({ status }) => status)), new Set([201]));
    const second = await together(works);
    assert.deepEqual(new Set(second.answers.map(({ status }) => status)), new Set([201]));
    assert.equal(second.further, 0);
    assert.equal((await stored(label)).length, 2 * many);
  });

  test('a trigger that throws over every record refuses each, and none is made', async () => {
    await trigger('beforeInsert', { kind: 'throw' }, {});
    const label = randomUUID();
    const works = names(label, -1).slice(0, 60);
    const { answers, further } = await together(
      works.map((each) => () => send('POST', '/api/v1/handoff', handoffOf(each))),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([422]));
    assert.ok(further <= works.length + 50, `${further} further calls`);
    assert.deepEqual(await stored(label), []);
  });

  test('accepted hand-offs: the faulty one fails, all others are created', async () => {
    await trigger('beforeInsert', { kind: 'throw' });
    const label = randomUUID();
    const down = await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'down' } });
    const all = names(label, 40).slice(0, 80);
    const ids = await Promise.all(all.map((name) => accept(gateway, { result: handoffOf(name).result })));
    await down.remove();
    for (const [n, id] of ids.entries()) {
      const status = n === 40 ? 'failed' : 'created';
      const ended = await untilHandoff(gateway, id, (handoff) => handoff.status !== 'accepted');
      assert.equal(ended.status, status, JSON.stringify(ended));
    }
    const refused = await readHandoff(gateway, ids[40] ?? '');
    assert.equal(refused.problem?.code, 'crm_rejected');
    assert.equal((await stored(label)).length, 79);
  });
});

describe('a refusal by the CRM', () => {
  const gateway = useGateway();
  afterEach(() => gateway.org.automate({}));

  const body = (name: string, source = 'hotelbeds') =>
    offerFor(gateway.org.memberId, { result: { name, source, details: { net: 1 } } });
  const refuse = async (request: object, { status, code } = { status: 422, code: 'crm_rejected' }) => {
    const response = await gateway.request('/api/v1/handoff', { body: request });
    const problem = (await response.json()) as { code: string; detail: string; errors: object[] };
    assert.deepEqual([response.status, problem.code], [status, code]);
    const line = gateway.logLines.findLast((each) => each.message === 'Salesforce refused a record');
    return { problem, line: line?.facts };
  };

  test('reports every error, with the field where the API has it, and its line has codes and fields', async () => {
    const when = { field: 'Source__c', equals: 'odd' };
    await gateway.org.automate({
      validationRules: [
        {
          name: 'Name',
          object: 'Quote__c',
          when,
          field: 'Name__c',
          message: 'Name__c is <i>not</i> a0Q8d000001abCDEAY',
        },
        { name: 'Trip', object: 'Quote__c', when, message: 'The trip is closed' },
      ],
    });
    const { problem, line } = await refuse(body('x', 'odd'));
    assert.deepEqual(problem.errors, [
      { pointer: '#/result/name', message: 'name is not (id)' },
      { pointer: '', message: 'The trip is closed' },
    ]);
    assert.equal(problem.detail, 'The CRM refused the record: name: name is not (id); The trip is closed');
    const code = 'FIELD_CUSTOM_VALIDATION_EXCEPTION';
    assert.deepEqual(line?.['errors'], [
      { code, fields: ['Name__c'] },
      { code, fields: [] },
    ]);
  });

  test("names a required field of the org's own, which no caller can set, as the org's fault", async () => {
    const fields = ['Office__c', 'Region__c'];
    await gateway.org.automate({ requiredFields: [{ name: 'Office', object: 'Quote__c', fields }] });
    const { problem, line } = await refuse(body('x'), { status: 502, code: 'crm_error' });
    assert.match(problem.detail, /Quote__c\.Office__c is required\. Ask its operator to undo/);
    assert.partialDeepStrictEqual(line, {
      object: 'Quote__c',
      errors: [{ code: 'REQUIRED_FIELD_MISSING', fields }],
    });
    assert.doesNotMatch(JSON.stringify(line), /hotelbeds/);
  });

  test('shows the rule that a trigger met, and nothing of the code', async () => {
    const action = { kind: 'throw', code: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'Not on Sundays' };
    await gateway.org.automate({
      triggers: [{ name: 'Audit', object: 'Quote__c', on: ['afterInsert'], action }],
    });
    const { problem } = await refuse(body('x'));
    assert.deepEqual(problem.errors, [{ pointer: '', message: 'Not on Sundays (Audit)' }]);
    assert.doesNotMatch(JSON.stringify(problem), /execution|AuditHandler|line 10|Exception/);
  });
});
