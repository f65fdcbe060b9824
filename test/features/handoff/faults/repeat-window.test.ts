import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { requestWithoutKey } from '../../../../src/api/idempotency/repeat-window.ts';
import { type Claims, openClaims } from '../../../support/claims.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { type ProxyHold, startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';

const postgres = await usePostgres();

describe('hand-offs without a key while the database becomes unavailable', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let proxy: TcpProxy;
  let claims: Claims;
  let gateway: TestGateway;

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    proxy = await startTcpProxy(url);
    claims = await openClaims(url);
    const env = { DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1', HANDOFF_REPEAT_WINDOW_SECONDS: '600' };
    gateway = await startGateway(env);
  });
  after(async () => {
    await gateway.stop();
    await claims.close();
    await proxy.close();
  });

  const newOffer = () => ({
    type: 'quote',
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    result: { name: 'a', source: 'b', details: {} },
  });
  const handOff = async (body: object) => {
    const response = await gateway.request('/api/v1/handoff', { body });
    const { external_id: id } = (await response.clone().json()) as { external_id: string };
    return { response, id, isReplayed: response.headers.has('idempotent-replayed') };
  };
  const cutAt = async (hold: ProxyHold, body: object) => {
    const running = handOff(body);
    await hold.hit();
    await proxy.cut();
    hold.release();
    const answer = await running;
    await proxy.restore();
    return answer;
  };
  const keyOf = (offer: object) =>
    requestWithoutKey(
      { consumerId: gateway.console.id, operation: 'handOff', externalId: randomUUID() },
      { method: 'POST', path: '/api/v1/handoff', body: Buffer.from(JSON.stringify(offer)) },
    ).key;
  const count = async ({ trip_id }: { trip_id: string }) =>
    (await gateway.org.records('Quote__c', { Trip_Id__c: trip_id })).length;

  test('unavailable: they work, and there is no window', async () => {
    const offer = newOffer();
    await proxy.cut();
    const both = [await handOff(offer), await handOff(offer)];
    await proxy.restore();
    assert.ok(both.every(({ response, isReplayed }) => response.status === 201 && !isReplayed));
    assert.notEqual(both[0]?.id, both[1]?.id);
    assert.equal((await handOff(offer)).isReplayed, false);
    assert.equal((await handOff(offer)).isReplayed, true);
  });

  for (const [what, hold] of [
    ['gone with the answer to the claim', () => proxy.holdAnswers('claims.take')],
    ['gone before the answer is stored', () => proxy.holdRequests('claims.complete')],
  ] as const) {
    test(`${what}: it works, and a repeat makes no second record`, async () => {
      const offer = newOffer();
      const first = await cutAt(hold(), offer);
      assert.equal(first.response.status, 201);
      await assertProblem(
        await gateway.request('/api/v1/handoff', { body: offer }),
        409,
        'idempotency_in_progress',
      );
      await claims.endLease(keyOf(offer));
      const repeat = await handOff(offer);
      assert.equal(repeat.response.status, 201);
      assert.equal(repeat.id, first.id);
      assert.equal(await count(offer), 1);
    });
  }
});
