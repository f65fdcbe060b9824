import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openPglite } from '../../src/platform/store/pglite.ts';
import { endLeaseSql } from '../support/claims.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import {
  assertFinishes,
  assertInProgress,
  assertIsStored,
  type KeyedWrite,
  KeyedWrites,
} from '../support/keyed-writes.ts';
import { embedded } from '../support/own-database.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

describe('a gateway on the embedded database that is killed', () => {
  let ownOrg: OwnOrg;
  let installation: Installation;
  let writes: KeyedWrites;

  before(async () => {
    ownOrg = await startOwnOrg();
    installation = await createInstallation(embedded, ownOrg);
  });
  after(async () => {
    await installation.remove();
    await ownOrg.close();
  });

  const start = async (): Promise<GatewayProcess> => {
    const gateway = await installation.start();
    writes = new KeyedWrites(ownOrg.org, (await installation.credentials()).console);
    return gateway;
  };
  const kill = async (gateway: GatewayProcess): Promise<void> => {
    gateway.signal('SIGKILL');
    await gateway.ended;
  };
  /** The files of the database belong to one process at a time. */
  const endLeases = async (interrupted: KeyedWrite[]): Promise<void> => {
    const database = await openPglite(join(installation.dataDir, 'database'));
    for (const { key } of interrupted) await database.execute(endLeaseSql, [key]);
    await database.close();
  };

  test('after the CRM has committed: the repeats end with the same records', async () => {
    const first = await start();
    const interrupted = Object.values(await writes.oneOfEach(first.url));
    const hold = await ownOrg.org.arm({ match: { path: '/sobjects/' }, effect: { kind: 'hold' } });
    const cut = interrupted.map((write) => assert.rejects(write.send(first.url)));
    await hold.hit(interrupted.length);
    await kill(first);
    await Promise.all(cut);
    await hold.remove();
    const left = await Promise.all(interrupted.map((write) => write.records()));

    const second = await start();
    for (const write of interrupted) assertInProgress(await write.send(second.url));
    await kill(second);
    await endLeases(interrupted);

    const third = await start();
    for (const [index, write] of interrupted.entries()) {
      await assertFinishes(write, third.url);
      assert.deepEqual(await write.records(), left[index]);
    }
    await kill(third);
  });

  test('after the completion, before the answer has come: the repeats get the stored answers', async () => {
    const first = await start();
    const interrupted = Object.values(await writes.oneOfEach(first.url));
    const way = await startTcpProxy(first.url);
    const hold = way.holdAnswers('idempotency-key');
    const cut = interrupted.map((write) => assert.rejects(write.send(new URL(way.url).origin)));
    await hold.hit(interrupted.length);
    await kill(first);
    await Promise.all(cut);
    await way.close();
    const left = await Promise.all(interrupted.map((write) => write.records()));

    const second = await start();
    for (const [index, write] of interrupted.entries()) {
      await assertIsStored(write, second.url);
      assert.deepEqual(await write.records(), left[index]);
    }
    await kill(second);
  });
});
