import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

describe('an item of a trip that is updated on its own', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000' });
  afterEach(() => gateway.org.disarm());

  const tripOf = (...items: { reference: string; name: string }[]) => ({
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    atomic: false,
    items: items.map(({ reference, name }) => ({
      type: 'quote',
      reference,
      on_repeat: 'update',
      result: { name, source: 'hotelbeds', details: {} },
    })),
  });
  const renamed = <T extends ReturnType<typeof tripOf>>(body: T, name: string) => ({
    ...body,
    items: body.items.map((item) => ({ ...item, result: { ...item.result, name } })),
  });
  const send = (body: object, key: string = randomUUID()) =>
    gateway.request('/api/v1/handoffs', { body, headers: { 'idempotency-key': key } });
  const idsOf = async (response: Response) => {
    const { items } = (await response.json()) as { items: { external_id: string }[] };
    return items.map(({ external_id }) => external_id);
  };
  const namesIn = async (trip: string) =>
    (await gateway.org.records('Quote__c', { Trip_Id__c: trip })).map((row) => row['Name__c']).toSorted();

  test('keeps what others have changed since an interrupted request has updated it', async () => {
    const body = tripOf({ reference: 'A', name: 'a' }, { reference: 'B', name: 'b' });
    const [a, b] = (await idsOf(await send(body))) as [string, string];
    for (const id of [a, b])
      await gateway.org.edit(
        'Quote__c',
        { External_Id__c: id },
        { CreatedDate: '2026-01-05T10:00:00.000+0000' },
      );
    await gateway.org.arm({ match: { operation: 'update' }, effect: { kind: 'loseAnswer' } });
    await gateway.org.arm({ match: { operation: 'query' }, effect: { kind: 'down' } });
    const key = randomUUID();
    assert.equal((await send(renamed(body, 'ours'), key)).status, 503);
    await gateway.org.disarm();
    await eventually(async () => assert.equal((await gateway.request('/v1/quotes')).status, 200));
    assert.deepEqual(await namesIn(body.trip_id), ['ours', 'ours']);
    await gateway.org.edit('Quote__c', { External_Id__c: b }, { Name__c: 'theirs' });
    const again = await send(renamed(body, 'ours'), key);
    assert.partialDeepStrictEqual(await again.json(), {
      items: [{ status: 'updated' }, { status: 'failed', problem: { code: 'conflict' } }],
    });
    assert.deepEqual(await namesIn(body.trip_id), ['ours', 'theirs']);
  });

  test('is not written between the check and the write of a change with If-Match', async () => {
    const body = tripOf({ reference: 'A', name: 'a' });
    const [id] = await idsOf(await send(body));
    const path = `/v1/quotes/${id}`;
    const tag = (await gateway.request(path)).headers.get('etag') ?? '';
    const read = await gateway.org.arm({
      match: { operation: 'query' },
      effect: { kind: 'hold', stage: 'after' },
      times: 1,
    });
    const headers = { 'if-match': tag, 'idempotency-key': randomUUID() };
    const change = gateway.request(path, { method: 'PATCH', body: { name: 'changed' }, headers });
    await read.hit();
    await assertProblem(await send(renamed(body, 'handed off')), 409, 'idempotency_in_progress', '#/items/0');
    await read.release();
    assert.equal((await change).status, 200);
    assert.deepEqual(await namesIn(body.trip_id), ['changed']);
  });
});
