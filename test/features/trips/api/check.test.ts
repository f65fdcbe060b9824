import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, useGateway } from '../../../support/gateway.ts';
import { offerFor, tripFor } from '../../../support/handoffs.ts';
import { insertLargeQuotes } from '../../../support/large-quotes.ts';
import { assertProblem, type ProblemBody } from '../../../support/problems.ts';

interface Checked {
  ok: boolean;
  problems: { code: string; detail: string; errors: { pointer: string }[] }[];
  warnings: { code: string; pointer: string; external_id: string | null }[];
}

/** One level too deep. */
const deep = JSON.parse(`${'{"a":'.repeat(101)}1${'}'.repeat(101)}`) as object;

describe('a check before a hand-off', () => {
  const gateway = useGateway();

  const check = async (
    path: string,
    body: object,
    as?: { apiKey: string; apiSecret: string },
  ): Promise<Checked> => {
    const response = await gateway.request(path, { body, ...(as && { as }) });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as Checked;
  };
  const found = ({ problems }: Checked) =>
    problems.flatMap(({ code, errors }) => errors.map(({ pointer }) => `${code} ${pointer}`)).toSorted();
  const calls = async () => Number((await gateway.org.counters())['metered']);
  const written = async () => (await gateway.org.records('Quote__c')).length;

  test('finds nothing wrong with a good one, with one call at most, and writes nothing', async () => {
    const [before, rows] = [await calls(), await written()];
    const body = offerFor(gateway.org.memberId, {
      valid_until: new Date(Date.now() + 300_000).toISOString(),
    });
    const checked = await check('/api/v1/handoff/check', body);
    assert.deepEqual([checked.ok, checked.problems], [true, []]);
    assert.deepEqual(
      checked.warnings.map(({ code, pointer }) => [code, pointer]),
      [['offer_ends_soon', '#/valid_until']],
    );
    assert.ok((await calls()) - before <= 1);
    const again = await calls();
    await check('/api/v1/handoff/check', body);
    assert.equal(await calls(), again, 'the member was cached');
    assert.equal(await written(), rows);
  });

  test('tells all that is wrong at once, of the schema and beyond', async () => {
    const body = {
      ...offerFor(randomUUID(), { valid_until: '2020-01-01T00:00:00Z', on_repeat: 'update' }),
      result: { name: 'a', source: 'b', details: { text: 'x'.repeat(131_072 * 8).slice(0, 1_000_000) } },
    };
    assert.deepEqual(found(await check('/api/v1/handoff/check', body)), [
      'invalid_request #/on_repeat',
      'member_not_found #/member_id',
      'offer_expired #/valid_until',
    ]);
    const { type: _, ...untyped } = offerFor(gateway.org.memberId, { more: 1 });
    assert.deepEqual(found(await check('/api/v1/handoff/check', untyped)), [
      'invalid_request #/more',
      'invalid_request #/type',
    ]);
    const ended = offerFor(gateway.org.memberId, { valid_until: '2020-01-01T00:00:00Z' });
    assert.deepEqual(found(await check('/api/v1/handoff/check', ended)), ['offer_expired #/valid_until']);
    await assertProblem(
      await gateway.request('/api/v1/handoff/check', {
        body: '[]',
        headers: { 'content-type': 'application/json' },
      }),
      400,
      'invalid_request',
      '#',
    );
  });

  test("tells a name that is too long for the org's field, as the hand-off is refused", async () => {
    const result = { name: '🏨'.repeat(200), source: 'b', details: {} };
    const body = offerFor(gateway.org.memberId, { result });
    const { problems } = await check('/api/v1/handoff/check', body);
    const refused = await gateway.request('/api/v1/handoff', { body });
    const { code, errors } = (await refused.json()) as ProblemBody;
    assert.equal(code, 'crm_rejected');
    assert.deepEqual(
      problems.map((problem) => [problem.code, problem.errors]),
      [[code, errors]],
    );
  });

  test('places what it finds of a trip at its items', async () => {
    const item = (change: object = {}) => ({
      type: 'quote',
      result: { name: 'a', source: 'b', details: {} },
      ...change,
    });
    const body = {
      trip_id: randomUUID(),
      member_id: gateway.org.memberId,
      items: [
        item({ reference: 'A' }),
        item({ reference: 'A' }),
        item({ valid_until: '2020-01-01T00:00:00Z' }),
        item({ on_repeat: 'return' }),
      ],
    };
    assert.deepEqual(found(await check('/api/v1/handoffs/check', body)), [
      'invalid_request #/items/1/reference',
      'invalid_request #/items/3/on_repeat',
      'offer_expired #/items/2/valid_until',
    ]);
    const faulty = { ...body, items: [item({ type: 'x' }), item({ valid_until: '2020-01-01T00:00:00Z' })] };
    assert.deepEqual(found(await check('/api/v1/handoffs/check', faulty)), [
      'invalid_request #/items/0/type',
      'offer_expired #/items/1/valid_until',
    ]);
  });

  test('warns a test consumer of a possible duplicate, and needs the permission of the hand-off', async () => {
    const made = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: {
        name: 'Tester',
        mode: 'test',
        permissions: [{ resource: 'quotes', actions: ['read', 'write'] }],
      },
    });
    const as = (await made.json()) as { apiKey: string; apiSecret: string };
    const body = offerFor(gateway.org.memberId);
    const handedOff = await gateway.request('/api/v1/handoff', { as, body });
    const { external_id } = (await handedOff.json()) as { external_id: string };
    const { ok, warnings } = await check('/api/v1/handoff/check', body, as);
    assert.ok(ok);
    assert.partialDeepStrictEqual(warnings, [
      { code: 'possible_duplicate', pointer: '#/result/name', external_id },
    ]);
    const response = await gateway.request('/api/v1/handoff/check', {
      as,
      body: { ...body, type: 'booking' },
    });
    await assertProblem(response, 403, 'permission_denied');
  });

  test('tells nothing of records to who may not read them', async () => {
    const actions = ['write'];
    const made = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: 'Writer', mode: 'test', permissions: [{ resource: 'quotes', actions }] },
    });
    const as = (await made.json()) as { apiKey: string; apiSecret: string };
    const body = offerFor(gateway.org.memberId);
    assert.equal((await gateway.request('/api/v1/handoff', { as, body })).status, 201);
    const { ok, warnings } = await check('/api/v1/handoff/check', body, as);
    assert.deepEqual([ok, warnings], [true, []]);
  });

  test('tells the rest where the schema is not kept, of whatever can be read', async () => {
    const { type: _, ...untyped } = offerFor(randomUUID(), {
      valid_until: '2020-01-01T00:00:00Z',
      on_repeat: 'update',
      more: 1,
      result: { name: 5, source: '', details: deep },
    });
    assert.deepEqual(found(await check('/api/v1/handoff/check', untyped)), [
      'invalid_request #/more',
      'invalid_request #/on_repeat',
      'invalid_request #/result/details',
      'invalid_request #/result/name',
      'invalid_request #/result/source',
      'invalid_request #/type',
      'member_not_found #/member_id',
      'offer_expired #/valid_until',
    ]);
    const body = {
      trip_id: 'x',
      member_id: gateway.org.memberId,
      items: [
        { type: 'quote', result: [], valid_until: '2020-01-01T00:00:00Z' },
        { type: 'quote', result: { name: '', source: 'b', details: deep } },
        'item',
        { type: 'quote', result: { name: 'a', source: 'b', details: {} }, reference: 'A' },
        { type: 'quote', result: { source: 'b' }, reference: 'A', on_repeat: 'never' },
      ],
    };
    assert.deepEqual(found(await check('/api/v1/handoffs/check', body)), [
      'invalid_request #/items/0/result',
      'invalid_request #/items/1/result/details',
      'invalid_request #/items/1/result/name',
      'invalid_request #/items/2',
      'invalid_request #/items/4/on_repeat',
      'invalid_request #/items/4/reference',
      'invalid_request #/items/4/result/details',
      'invalid_request #/items/4/result/name',
      'invalid_request #/trip_id',
      'offer_expired #/items/0/valid_until',
    ]);
  });

  test('tells the faults of 25 items of 25 kinds, and of a 26th that there are too many', async () => {
    const sound = { type: 'quote', result: { name: 'a', source: 'b', details: {} } };
    const result = (change: object) => ({ result: { ...sound.result, ...change } });
    const kinds: [object, pointer: string][] = [
      [{ type: 'tour' }, '/type'],
      [{ type: null }, '/type'],
      [{ result: 'x' }, '/result'],
      [{ result: null }, '/result'],
      [result({ name: '' }), '/result/name'],
      [result({ name: ' ' }), '/result/name'],
      [result({ name: 7 }), '/result/name'],
      [result({ name: 'n'.repeat(256) }), '/result/name'],
      [result({ name: 'a\u0000' }), '/result/name'],
      [result({ source: '' }), '/result/source'],
      [result({ source: {} }), '/result/source'],
      [result({ source: 's'.repeat(256) }), '/result/source'],
      [result({ details: [] }), '/result/details'],
      [result({ details: 'x' }), '/result/details'],
      [result({ details: deep }), '/result/details'],
      [result({ more: 1 }), '/result/more'],
      [{ valid_until: 'tomorrow' }, '/valid_until'],
      [{ valid_until: 5 }, '/valid_until'],
      [{ valid_until: '2020-01-01T00:00:00Z' }, '/valid_until'],
      [{ reference: 'r'.repeat(101) }, '/reference'],
      [{ reference: 'a\u0000' }, '/reference'],
      [{ on_repeat: 'update' }, '/on_repeat'],
      [{ on_repeat: 'twice', reference: 'A' }, '/on_repeat'],
      [{ colour: 'red' }, '/colour'],
      [{ member_id: 'x' }, '/member_id'],
    ];
    assert.equal(kinds.length, 25);
    const body = {
      trip_id: randomUUID(),
      member_id: gateway.org.memberId,
      items: kinds.map(([change]) => ({ ...sound, ...change })),
    };
    const wanted = kinds.map(([, pointer], index) => `#/items/${index}${pointer}`);
    const told = async (sent: object) =>
      (await check('/api/v1/handoffs/check', sent)).problems
        .flatMap(({ errors }) => errors.map(({ pointer }) => pointer))
        .toSorted();
    assert.deepEqual(await told(body), wanted.toSorted());
    const more = { ...body, items: [...body.items, sound] };
    assert.deepEqual(await told(more), ['#/items', ...wanted].toSorted());
  });

  test('tells what an explicit all or none is refused for', async () => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['write'], approval: true });
    const { items, ...trip } = tripFor(gateway.org.memberId, { atomic: true });
    const body = { ...trip, items };
    assert.deepEqual(found(await check('/api/v1/handoffs/check', body, as)), ['invalid_request #/atomic']);
    assert.equal((await gateway.request('/api/v1/handoffs', { body, as })).status, 400);
    assert.ok((await check('/api/v1/handoffs/check', { ...body, atomic: false }, as)).ok);
  });

  test('knows the hand-off of the item that waits for another member', async () => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['write'], approval: true });
    const body = offerFor(gateway.org.memberId, { reference: 'A' });
    assert.equal((await gateway.request('/api/v1/handoff', { body, as })).status, 202);
    assert.ok((await check('/api/v1/handoff/check', body, as)).ok);
    const other = { ...body, member_id: randomUUID() };
    assert.deepEqual(found(await check('/api/v1/handoff/check', other, as)), [
      'conflict #/member_id',
      'member_not_found #/member_id',
    ]);
  });

  for (const path of ['/api/v1/handoff/check', '/api/v1/handoffs/check']) {
    test(`${path} needs the permission and the fields that the hand-off needs`, async () => {
      const fields = ['member_id', 'name', 'source', 'details'];
      const as = await gateway.newConsumer({ resource: 'quotes', actions: ['write'], fields });
      const { items, ...trip } = tripFor(gateway.org.memberId);
      const body = path.includes('handoffs') ? { ...trip, items } : { ...trip, ...items[0] };
      assert.partialDeepStrictEqual(
        await assertProblem(await gateway.request(path, { body, as }), 403, 'permission_denied'),
        { required: { resource: 'quotes', field: 'trip_id' } },
      );
      const typed = { ...body, type: 'booking', items: [{ ...items[0], type: 'booking' }] };
      const denied = await gateway.request(path, { body: typed, as });
      assert.partialDeepStrictEqual(await assertProblem(denied, 403, 'permission_denied'), {
        required: { resource: 'bookings' },
      });
    });
  }
});

test('a check leaves alone what the daily quota keeps for writes', async (t) => {
  const gateway = await startGateway({ CRM_QUOTA_RESERVE: '1000000' });
  t.after(() => gateway.stop());
  const check = () => gateway.request('/api/v1/handoff/check', { body: offerFor(randomUUID()) });
  // What is left is known from the answer to a call.
  assert.equal(
    (await gateway.request('/api/v1/handoff', { body: offerFor(gateway.org.memberId) })).status,
    201,
  );
  await assertProblem(await gateway.request('/v1/quotes?limit=1'), 503, 'crm_quota_exhausted');
  await assertProblem(await check(), 503, 'crm_quota_exhausted');
});

describe('a check where there is a copy of the records', () => {
  test('warns of duplicates, and knows the record of the item', async (t) => {
    const gateway = await startGateway({ COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '0.2' });
    t.after(() => gateway.stop());
    const body = offerFor(gateway.org.memberId);
    const item = { ...body, reference: 'A' };
    for (const sent of [body, item])
      assert.equal((await gateway.request('/api/v1/handoff', { body: sent })).status, 201);
    const checked = (sent: object) =>
      gateway
        .request('/api/v1/handoff/check', { body: sent })
        .then((response) => response.json()) as Promise<Checked>;
    await eventually(async () => assert.equal((await checked(body)).warnings.length, 2));
    assert.equal((await checked(item)).warnings.length, 1);
    const other = await checked({ ...item, member_id: randomUUID() });
    assert.deepEqual(other.problems.map(({ code }) => code).toSorted(), ['conflict', 'member_not_found']);
  });

  test('warns of a duplicate behind records with more bytes than a page has', async (t) => {
    const gateway = await startGateway({ COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '0.2' });
    t.after(() => gateway.stop());
    const trip_id = randomUUID();
    const oldest = (await insertLargeQuotes(gateway.org, trip_id)).at(-1);
    const result = { name: oldest?.Name__c, source: oldest?.Source__c, details: {} };
    const body = offerFor(gateway.org.memberId, { trip_id, result });
    await eventually(async () => {
      const response = await gateway.request('/api/v1/handoff/check', { body });
      const { warnings } = (await response.json()) as Checked;
      assert.deepEqual(
        warnings.map(({ external_id }) => external_id),
        [oldest?.External_Id__c],
      );
    });
  });
});
