import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Checked {
  ok: boolean;
  problems: { code: string; detail: string; errors: { pointer: string }[] }[];
  warnings: { code: string; pointer: string; external_id: string | null }[];
}

describe('a check before a hand-off', () => {
  let gateway: TestGateway;

  before(async () => {
    gateway = await startGateway();
  });
  after(() => gateway.stop());

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
});
