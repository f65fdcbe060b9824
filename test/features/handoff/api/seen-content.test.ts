import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Credentials, useGateway } from '../../../support/gateway.ts';
import { offerFor, readHandoff, untilHandoff } from '../../../support/handoffs.ts';
import { callTool } from '../../../support/mcp.ts';
import { assertProblem } from '../../../support/problems.ts';

describe('a decision on what was seen', () => {
  const gateway = useGateway();
  let maker: Credentials;
  before(async () => {
    maker = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'], approval: true });
  });

  const offer = (name: string, more: object = {}) =>
    offerFor(gateway.org.memberId, {
      ...{ reference: 'HB-1', on_repeat: 'update' },
      result: { name, source: 'hotelbeds', details: { net: 700 } },
      ...more,
    });
  const send = async (body: object) => {
    const response = await gateway.request('/api/v1/handoff', { body, as: maker });
    assert.equal(response.status, 202, await response.clone().text());
    return ((await response.json()) as { external_id: string }).external_id;
  };
  /** Waits with content that has replaced what the tag names. */
  const replaced = async () => {
    const first = offer('Hotel Sol');
    const id = await send(first);
    const seen = await gateway.request(`/v1/handoffs/${id}`, { as: gateway.admin });
    const tag = seen.headers.get('etag') as string;
    await send(offer('Hotel Mar', { trip_id: first.trip_id }));
    return { id, tag };
  };
  const decide = (id: string, verdict: 'approve' | 'reject', headers: Record<string, string>) =>
    gateway.request(`/v1/handoffs/${id}/${verdict}`, {
      ...{ method: 'POST', as: gateway.admin, headers },
      ...(verdict === 'reject' && { body: { reason: 'too dear' } }),
    });
  const namesOf = async (id: string) =>
    (await gateway.org.records('Quote__c', { External_Id__c: id })).map((row) => row['Name__c']);

  test('is refused once other content has replaced it', async () => {
    const { id, tag } = await replaced();
    for (const verdict of ['approve', 'reject'] as const)
      await assertProblem(await decide(id, verdict, { 'if-match': tag }), 412, 'precondition_failed');
    const waiting = await readHandoff(gateway, id);
    assert.equal(waiting.status, 'awaiting_approval');
    const now = `"${(waiting as unknown as { version: string }).version}"`;
    assert.notEqual(now, tag);
    assert.equal((await decide(id, 'approve', { 'if-match': now })).status, 202);
    await untilHandoff(gateway, id);
    assert.deepEqual(await namesOf(id), ['Hotel Mar']);
    // A repeat is answered alike, whatever became of it.
    assert.equal((await decide(id, 'approve', { 'if-match': now })).status, 202);
    await assertProblem(await decide(id, 'approve', { 'if-match': tag }), 412, 'precondition_failed');
  });

  test('stands where the same content was sent again, and counts for whatever is there without a tag', async () => {
    const body = offer('Hotel Luna');
    const id = await send(body);
    const { headers } = await gateway.request(`/v1/handoffs/${id}`, { as: gateway.admin });
    await send(body);
    assert.equal((await decide(id, 'approve', { 'if-match': headers.get('etag') as string })).status, 202);
    const other = await replaced();
    assert.equal((await decide(other.id, 'approve', { 'if-match': '*' })).status, 202);
    assert.equal((await decide((await replaced()).id, 'reject', {})).status, 200);
  });

  test('is needed for a cancellation that names a tag', async () => {
    const { id, tag } = await replaced();
    const path = `/v1/handoffs/${id}`;
    const cancel = (ifMatch: string) =>
      gateway.request(path, { method: 'DELETE', headers: { 'if-match': ifMatch } });
    for (const other of [tag, '"none"', `${tag.slice(0, -2)}x"`])
      await assertProblem(await cancel(other), 412, 'precondition_failed');
    const { headers } = await gateway.request(path, { as: maker });
    assert.equal((await cancel(headers.get('etag') as string)).status, 204);
    assert.equal((await readHandoff(gateway, id)).status, 'cancelled');
    assert.equal((await cancel(headers.get('etag') as string)).status, 204);
  });

  test('takes the tag of an answer, which changes with the status', async () => {
    const id = await send(offer('Hotel Sol'));
    const path = `/v1/handoffs/${id}`;
    const tag = (await gateway.request(path)).headers.get('etag') as string;
    const read = async () => (await gateway.request(path, { headers: { 'if-none-match': tag } })).status;
    assert.equal(await read(), 304);
    assert.equal((await decide(id, 'approve', { 'if-match': tag })).status, 202);
    assert.equal(await read(), 200);
  });

  test('is made by a tool with the version that it has read', async () => {
    const { id, tag } = await replaced();
    const call = (name: string, args: object) => callTool(gateway.url, gateway.admin, name, args);
    const stale = await call('approve_hand_off', { external_id: id, version: tag.slice(1, -1) });
    assert.equal((stale.structuredContent as { code: string }).code, 'precondition_failed');
    const { structuredContent: read } = await call('get_hand_off', { external_id: id });
    const { version } = read as { version: string };
    const approved = await call('approve_hand_off', { external_id: id, version });
    assert.equal(approved.isError, false, JSON.stringify(approved.structuredContent));
    await untilHandoff(gateway, id);
    assert.deepEqual(await namesOf(id), ['Hotel Mar']);
  });
});
