import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Claims, openClaims } from '../support/claims.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import {
  type Answer,
  assertAnswerIs,
  assertInProgress,
  isReplay,
  type KeyedWrite,
  KeyedWrites,
  lasting,
} from '../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('two gateways on one PostgreSQL', { skip: !postgres && 'no PostgreSQL' }, () => {
  let claims: Claims;
  let ownOrg: OwnOrg;
  let writes: KeyedWrites;
  let one: GatewayProcess;
  let other: GatewayProcess;
  const installations: Installation[] = [];

  const install = async (env: NodeJS.ProcessEnv): Promise<Installation> => {
    const installation = await createInstallation(env, ownOrg);
    installations.push(installation);
    return installation;
  };

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    claims = await openClaims(url);
    ownOrg = await startOwnOrg();
    const first = await install({ DATABASE_URL: url });
    one = await first.start();
    const secrets = { SECRETS_DIR: join(first.dataDir, 'secrets') };
    other = await (await install({ DATABASE_URL: url, ...secrets })).start();
    writes = new KeyedWrites(ownOrg.org, (await first.credentials()).console);
  });
  after(async () => {
    for (const installation of installations) await installation.remove();
    await claims.close();
    await ownOrg.close();
  });

  /** Sends a write so often at once, alternately to these gateways. */
  const storm = (write: KeyedWrite, times: number, ...gateways: GatewayProcess[]): Promise<Answer[]> =>
    Promise.all(
      Array.from({ length: times }, (_, index) =>
        write.send((gateways[index % gateways.length] as GatewayProcess).url),
      ),
    );
  const assertOneDidIt = (answers: Answer[], write: KeyedWrite): void => {
    const waiting = answers.filter(({ status }) => status === 409);
    for (const answer of waiting) assertInProgress(answer);
    const done = answers.filter((answer) => !waiting.includes(answer));
    for (const answer of done) write.assertDone(answer);
    assert.equal(done.filter((answer) => !isReplay(answer)).length, 1);
    assert.equal(new Set(done.map((answer) => JSON.stringify(lasting(answer)))).size, 1);
  };

  test('a hundred parallel requests to one of them are carried out once', async () => {
    for (const write of [writes.creation(), writes.handOff()]) {
      assertOneDidIt(await storm(write, 100, one), write);
      await write.assertCarriedOut();
    }
  });

  test('a hundred parallel requests to both are carried out once', async () => {
    for (const write of Object.values(await writes.oneOfEach(one.url))) {
      assertOneDidIt(await storm(write, 100, one, other), write);
      await write.assertCarriedOut();
      assert.equal(isReplay(await write.send(one.url)), true);
      assert.equal(isReplay(await write.send(other.url)), true);
    }
  });

  test('a claim whose lease is over is taken over by exactly one of a hundred', async () => {
    const interrupted = Object.values(await writes.oneOfEach(one.url));
    const hold = await ownOrg.org.arm({
      match: { path: '/sobjects/' },
      effect: { kind: 'hold' },
      times: interrupted.length,
    });
    const owners = interrupted.map((write) => write.send(one.url));
    await hold.hit(interrupted.length);
    for (const { key } of interrupted) await claims.endLease(key);
    const answers = await Promise.all(interrupted.map((write) => storm(write, 100, one, other)));
    await hold.remove();
    for (const [index, write] of interrupted.entries()) {
      assertOneDidIt(answers[index] ?? [], write);
      await write.assertCarriedOut();
      // The replaced owners have the CRM's answers now, and the ledger takes nothing from them.
      assertInProgress((await owners[index]) as Answer);
      const stored = (answers[index] ?? []).find(({ status }) => status !== 409) as Answer;
      assert.deepEqual(lasting(await write.send(other.url)), lasting(stored));
    }
  });

  test('a replaced owner that has not written yet does not write any more', async () => {
    const id = await writes.existing(one.url);
    const change = writes.change(id, { name: 'Hotel Alhambra' });
    const hold = await ownOrg.org.arm({
      match: { operation: 'query', recordKey: id },
      effect: { kind: 'hold' },
      times: 1,
    });
    const owner = change.send(one.url);
    await hold.hit();
    await claims.endLease(change.key);
    change.assertDone(await change.send(other.url));
    const later = writes.change(id, { name: 'Hotel Miramar' });
    later.assertDone(await later.send(other.url));
    await hold.release();
    assertInProgress(await owner);
    await later.assertCarriedOut();
    const replay = await change.send(one.url);
    assert.equal(isReplay(replay), true);
    change.assertDone(replay);
  });

  test('another request under the key is refused by both, while the first runs and afterwards', async () => {
    const id = await writes.existing(one.url);
    const change = writes.change(id, { name: 'Hotel Alhambra' });
    const foreign = writes.change(id, { source: 'y' }, { key: change.key });
    const hold = await ownOrg.org.arm({
      match: { path: '/sobjects/' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const owner = change.send(one.url);
    await hold.hit();
    for (const gateway of [one, other]) {
      assertAnswerIs(await foreign.send(gateway.url), 422, 'idempotency_key_reused');
    }
    await claims.endLease(change.key);
    for (const gateway of [one, other]) {
      assertAnswerIs(await foreign.send(gateway.url), 422, 'idempotency_key_reused');
    }
    await hold.release();
    change.assertDone(await owner);
    assertAnswerIs(await foreign.send(other.url), 422, 'idempotency_key_reused');
  });
});
