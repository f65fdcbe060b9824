import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, mock, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Claims, openClaims } from '../support/claims.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { assertAnswerIs, KeyedWrites } from '../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

/** Below this nobody asks again who owns a claim, in milliseconds; a request lives for 25 s. */
const certainMs = 5000;

describe('a gateway that stands still in the middle of a write', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let proxy: TcpProxy;
  let claims: Claims;
  let ownOrg: OwnOrg;
  /** In this process, whose wall clock can be moved. */
  let own: TestGateway;
  let other: GatewayProcess;
  let stopped: GatewayProcess;
  let writes: KeyedWrites;
  const installations: Installation[] = [];

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    proxy = await startTcpProxy(url);
    claims = await openClaims(url);
    ownOrg = await startOwnOrg();
    const start = async (env: NodeJS.ProcessEnv) => {
      const installation = await createInstallation(env, ownOrg);
      installations.push(installation);
      return { installation, gateway: await installation.start() };
    };
    const first = await start({ DATABASE_URL: url });
    other = first.gateway;
    const shared = { DATABASE_URL: proxy.url, SECRETS_DIR: join(first.installation.dataDir, 'secrets') };
    stopped = (await start(shared)).gateway;
    own = await startGateway({ ...ownOrg.env, ...shared, SHUTDOWN_SECONDS: '1' });
    writes = new KeyedWrites(ownOrg.org, (await first.installation.credentials()).console);
  });
  after(async () => {
    await own.stop();
    for (const installation of installations) await installation.remove();
    await claims.close();
    await proxy.close();
    await ownOrg.close();
  });

  /** The wall clock alone goes on, as it does while a machine is suspended. */
  const suspend = (ms: number) => {
    const real = Date.now.bind(Date);
    const moved = mock.method(Date, 'now', () => real() + ms);
    return () => moved.mock.restore();
  };

  /** Has a gateway stand still just before it writes, until another has taken its claim over. */
  const replaceWhile = async (url: string, standStill: () => Promise<() => void>) => {
    const id = await writes.existing(other.url);
    const change = writes.change(id, { name: 'Hotel Alhambra' });
    const hold = proxy.holdAnswers('set entity_tag_before');
    const owner = change.send(url);
    await hold.hit();
    const goOn = await standStill();
    await claims.endLease(change.key);
    change.assertDone(await change.send(other.url));
    const later = writes.change(id, { name: 'Hotel Miramar' });
    later.assertDone(await later.send(other.url));
    hold.release();
    goOn();
    const { status, text } = await owner;
    await later.assertCarriedOut();
    return { status, code: (JSON.parse(text) as { code: string }).code };
  };

  test('because its machine is suspended: an owner that was replaced does not write', async () => {
    let wakeUp = () => {};
    const answer = await replaceWhile(own.url, async () => {
      wakeUp = suspend(2 * certainMs);
      return () => {};
    });
    wakeUp();
    assert.deepEqual(answer, { status: 409, code: 'idempotency_in_progress' });
  });

  test('because its machine is suspended: a request whose time is over does not write', async () => {
    const change = writes.change(await writes.existing(other.url), { name: 'Hotel Alhambra' });
    const untouched = await change.records();
    const hold = proxy.holdAnswers('set entity_tag_before');
    const answer = change.send(own.url);
    await hold.hit();
    const wakeUp = suspend(26_000);
    hold.release();
    assertAnswerIs(await answer, 504, 'crm_timeout');
    wakeUp();
    assert.deepEqual(await change.records(), untouched);
    change.assertDone(await change.send(own.url));
  });

  test('because its process is stopped: an owner that was replaced does not write', async () => {
    const answer = await replaceWhile(stopped.url, async () => {
      stopped.signal('SIGSTOP');
      await sleep(certainMs + 200);
      return () => stopped.signal('SIGCONT');
    });
    // It sees first that its statement is late, or its answer, and then that it was replaced.
    assert.ok(['store_unavailable', 'idempotency_in_progress'].includes(answer.code), JSON.stringify(answer));
  });
});
