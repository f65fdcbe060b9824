import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { assertionOf, type Partner } from '../../../support/assertions.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { usePostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { assertionType, tokenCalls } from '../../../support/token-calls.ts';

const postgres = await usePostgres();

describe('assertions, over a bad line to the database', { skip: !postgres && 'no PostgreSQL' }, () => {
  let proxy: TcpProxy;
  let gateway: TestGateway;
  let calls: ReturnType<typeof tokenCalls>;
  let partner: Partner & Credentials;
  before(async () => {
    proxy = await startTcpProxy(postgres?.url ?? '');
    gateway = await startGateway({ DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1' });
    calls = tokenCalls(gateway, gateway.url);
    partner = await calls.newPartner();
  });
  after(async () => {
    await gateway.stop();
    await proxy.close();
  });
  const newAssertion = async () => ({
    client_assertion_type: assertionType,
    client_assertion: await assertionOf(partner, gateway.url),
  });

  test('get no token while none can be noted, and one afterwards; pairs get theirs', async () => {
    const fields = await newAssertion();
    await proxy.cut();
    await assertProblem(await calls.ask(fields), 503, 'store_unavailable');
    const token = await calls.tokenFor(calls.withPair(partner));
    assert.equal((await calls.call('/v1/consumer', token)).status, 200);
    await proxy.restore();
    const again = await eventually(async () => {
      const answer = await calls.ask(fields);
      assert.notEqual(answer.status, 503);
      return answer;
    });
    assert.equal(again.status, 200);
    await calls.assertError(await calls.ask(fields), 401, 'invalid_client');
  });

  test('are used up once they are noted, though nobody got an answer', async () => {
    const fields = await newAssertion();
    const noted = proxy.holdAnswers('insert into used_assertions');
    const first = calls.ask(fields);
    await noted.hit();
    noted.cut();
    await assertProblem(await first, 503, 'store_unavailable');
    const again = await eventually(async () => {
      const answer = await calls.ask(fields);
      assert.notEqual(answer.status, 503);
      return answer;
    });
    await calls.assertError(again, 401, 'invalid_client');
    assert.equal((await calls.ask(await newAssertion())).status, 200);
  });
});
