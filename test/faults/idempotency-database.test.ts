import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Claims, openClaims } from '../support/claims.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import {
  type Answer,
  assertAnswerIs,
  assertFinishes,
  assertInProgress,
  assertIsStored,
  type KeyedWrite,
  KeyedWrites,
} from '../support/keyed-writes.ts';
import { type PostgresDatabase, usePostgres } from '../support/postgres.ts';
import { type ProxyHold, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const unknown = /It's unknown whether the write took effect; the same request with the same Idempotency-Key/;
const claiming = 'claims.take';
const remembering = 'set entity_tag_before';
const completing = 'claims.complete';

const postgres = await usePostgres();

describe('keyed writes while the database becomes unavailable', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let proxy: TcpProxy;
  let claims: Claims;
  let gateway: TestGateway;
  let writes: KeyedWrites;

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    proxy = await startTcpProxy(url);
    claims = await openClaims(url);
    // A connection that a client opened and never used would hold the stop up until then.
    gateway = await startGateway({ DATABASE_URL: proxy.url, SHUTDOWN_SECONDS: '1' });
    writes = new KeyedWrites(gateway.org, gateway.console);
  });
  after(async () => {
    await gateway.stop();
    await claims.close();
    await proxy.close();
  });

  const send = (write: KeyedWrite) => write.send(gateway.url);

  /** Sends the writes until all of them have come to the hold, breaks every connection there, and restores the way. */
  async function cutAt(hold: ProxyHold, interrupted: KeyedWrite[]): Promise<Answer[]> {
    const answers: Promise<Answer>[] = [];
    for (const write of interrupted) {
      answers.push(send(write));
      // One after the other: writes that come together would share a statement.
      await hold.hit(answers.length);
    }
    await proxy.cut();
    hold.release();
    const all = await Promise.all(answers);
    await proxy.restore();
    return all;
  }

  /** Sends a write again whose claim nobody gave back: first it waits, then it is done. */
  async function finishAfterLease(write: KeyedWrite): Promise<void> {
    assertInProgress(await send(write));
    const claim = await claims.find(write.key);
    await claims.endLease(write.key);
    await assertFinishes(write, gateway.url);
    assert.equal((await claims.find(write.key))?.external_id, claim?.external_id);
  }

  const all = async () => Object.values(await writes.oneOfEach(gateway.url));
  const recordsOf = (those: KeyedWrite[]) => Promise.all(those.map((write) => write.records()));

  test('unavailable before the claim: nothing is done, and the key is unused', async () => {
    const interrupted = await all();
    const untouched = await recordsOf(interrupted);
    await proxy.cut();
    for (const write of interrupted) {
      const answer = await send(write);
      assert.doesNotMatch(assertAnswerIs(answer, 503, 'store_unavailable').detail, unknown);
      assert.equal(answer.headers.get('retry-after'), '1');
    }
    assert.deepEqual(await recordsOf(interrupted), untouched);
    await proxy.restore();
    for (const write of interrupted) {
      assert.equal(await claims.find(write.key), undefined);
      write.assertDone(await send(write));
      await write.assertCarriedOut();
    }
  });

  test('hand-offs without a key and reads go on meanwhile', async () => {
    const id = await writes.existing(gateway.url);
    await proxy.cut();
    const offer = {
      type: 'quote',
      trip_id: id,
      member_id: gateway.org.memberId,
      result: { name: 'a', source: 'b', details: {} },
    };
    assert.equal((await gateway.request('/api/v1/handoff', { body: offer })).status, 201);
    assert.equal((await gateway.request(`/v1/quotes/${id}`)).status, 200);
    await proxy.restore();
  });

  test('gone with the answer to the claim: nothing is done until the lease is over', async () => {
    const interrupted = await all();
    const untouched = await recordsOf(interrupted);
    for (const answer of await cutAt(proxy.holdAnswers(claiming), interrupted)) {
      assertAnswerIs(answer, 503, 'store_unavailable');
    }
    assert.deepEqual(await recordsOf(interrupted), untouched);
    for (const write of interrupted) await finishAfterLease(write);
  });

  test('gone before a change: it is not made', async () => {
    const change = writes.change(await writes.existing(gateway.url), { name: 'Hotel Alhambra' });
    const untouched = await change.records();
    const [answer] = await cutAt(proxy.holdRequests(remembering), [change]);
    assertAnswerIs(answer as Answer, 503, 'store_unavailable');
    assert.deepEqual(await change.records(), untouched);
    await finishAfterLease(change);
  });

  test('gone before the completion: the outcome is unknown, and the repeat finds the record', async () => {
    const interrupted = await all();
    const answers = await cutAt(proxy.holdRequests(completing), interrupted);
    for (const answer of answers) {
      assert.match(assertAnswerIs(answer, 503, 'store_unavailable').detail, unknown);
    }
    const done = await recordsOf(interrupted);
    for (const write of interrupted) await finishAfterLease(write);
    assert.deepEqual(await recordsOf(interrupted), done);
  });

  test('gone with the answer to the completion: the repeat gets what was stored', async () => {
    const interrupted = await all();
    const answers = await cutAt(proxy.holdAnswers(completing), interrupted);
    for (const answer of answers) {
      assert.match(assertAnswerIs(answer, 503, 'store_unavailable').detail, unknown);
    }
    for (const write of interrupted) await assertIsStored(write, gateway.url);
  });

  test('a client that disconnects before its answer gets it with the repeat', async () => {
    for (const write of await all()) {
      const hold = proxy.holdAnswers(completing);
      const impatient = new AbortController();
      const gone = assert.rejects(write.send(gateway.url, impatient.signal), { name: 'AbortError' });
      await hold.hit();
      impatient.abort();
      await gone;
      hold.release();
      await assertIsStored(write, gateway.url);
    }
  });
});
