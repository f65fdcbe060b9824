import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { requestWithoutKey } from '../../../src/api/idempotency/repeat-window.ts';
import { type Claims, openClaims } from '../../support/claims.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { offerFor, tripFor } from '../../support/handoffs.ts';
import { callTool } from '../../support/mcp.ts';
import { usePostgres } from '../../support/postgres.ts';
import { recordFor } from '../../support/records.ts';

const postgres = await usePostgres();

describe('while the CRM is away', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  let claims: Claims;

  before(async () => {
    const DATABASE_URL = postgres?.url ?? '';
    claims = await openClaims(DATABASE_URL);
    gateway = await startGateway({ DATABASE_URL, HANDOFF_REPEAT_WINDOW_SECONDS: '600' });
  });
  after(async () => {
    await gateway.stop();
    await claims.close();
  });

  const newRequests = (): { path: string; body: object; key?: string }[] => {
    const { memberId } = gateway.org;
    return [
      { path: '/api/v1/handoff', body: offerFor(memberId), key: randomUUID() },
      { path: '/api/v1/handoffs', body: tripFor(memberId), key: randomUUID() },
      { path: '/v1/quotes', body: recordFor(memberId), key: randomUUID() },
      { path: '/api/v1/handoff', body: offerFor(memberId) },
    ];
  };
  const send = async ({ path, body, key }: { path: string; body: object; key?: string }) => {
    const response = await gateway.request(path, { body, headers: key ? { 'idempotency-key': key } : {} });
    const isReplay = response.headers.get('idempotent-replayed') === 'true';
    return { status: response.status, text: await response.text(), isReplay };
  };
  const keyWithout = (body: object) =>
    requestWithoutKey(
      { consumerId: gateway.console.id, operation: 'handOff', externalId: randomUUID() },
      { method: 'POST', path: '/api/v1/handoff', body: Buffer.from(JSON.stringify(body)) },
    ).key;

  test('a repeat gets its answer, and what is new leaves no claim', async () => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['write'] });
    const handOff = async (body: object) => {
      const { isError, structuredContent } = await callTool(gateway.url, as, 'hand_off', body);
      return { isError, id: structuredContent['external_id'] };
    };
    const offer = offerFor(gateway.org.memberId);
    const byTool = await handOff(offer);
    assert.equal(byTool.isError, false);
    const done = newRequests();
    const answers = await Promise.all(done.map(send));
    for (const { status, text } of answers) assert.equal(status, 201, text);

    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    // The breaker opens: requests are refused before they claim anything.
    for (let failures = 0; failures < 5; failures++) await gateway.request('/v1/quotes');
    for (const [index, request] of done.entries())
      assert.deepEqual(await send(request), { ...answers[index], isReplay: true });
    assert.deepEqual(await handOff(offer), byTool);

    const refused = newRequests();
    for (const request of refused) {
      // If it's time to look whether the CRM is back, this one does.
      await gateway.request('/v1/quotes');
      const { status, text } = await send(request);
      assert.equal(status, 503, text);
      assert.equal(await claims.find(request.key ?? keyWithout(request.body)), undefined, request.path);
    }
    assert.equal((await handOff(offerFor(gateway.org.memberId))).isError, true);
  });
});
