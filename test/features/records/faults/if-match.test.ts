import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Claims, openClaims } from '../../../support/claims.ts';
import { type Cluster, startCluster } from '../../../support/cluster.ts';
import type { GatewayProcess } from '../../../support/gateway-process.ts';
import { type Answer, assertAnswerIs, assertInProgress, KeyedWrites } from '../../../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('writes with one tag, over two gateways', { skip: !postgres && 'no PostgreSQL' }, () => {
  let claims: Claims;
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  let writes: KeyedWrites;
  let one: GatewayProcess;
  let other: GatewayProcess;

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    claims = await openClaims(url);
    ownOrg = await startOwnOrg();
    // One installation makes the consumers; the other finds them in the folder that both share.
    cluster = await startCluster(2, ownOrg, { DATABASE_URL: url });
    [one, other] = cluster.gateways as [GatewayProcess, GatewayProcess];
    writes = new KeyedWrites(ownOrg.org, cluster.credentials.console);
  });
  after(async () => {
    await cluster.remove();
    await claims.close();
    await ownOrg.close();
  });

  const tagOf = async (id: string): Promise<string> => {
    const { apiKey, apiSecret } = cluster.credentials.console;
    const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
    const response = await fetch(`${one.url}/v1/quotes/${id}`, { headers });
    await response.arrayBuffer();
    return response.headers.get('etag') as string;
  };

  /** A new quote and its tag. */
  const existing = async () => {
    const id = await writes.existing(one.url);
    return { id, ifMatch: await tagOf(id) };
  };

  /** Sends the writes at once, alternately to both gateways. */
  const storm = (all: { send(url: string): Promise<Answer> }[]): Promise<Answer[]> =>
    Promise.all(all.map((write, index) => write.send((index % 2 === 0 ? one : other).url)));

  const countDone = (answers: Answer[], refusals: number[]): number => {
    const done = answers.filter(({ status }) => status < 300);
    for (const { status, text } of answers) {
      if (status >= 300) assert.ok(refusals.includes(status), `${status} ${text}`);
    }
    return done.length;
  };

  test('of fifty changes at once exactly one succeeds, time after time', async () => {
    const { id } = await existing();
    for (let round = 0; round < 4; round++) {
      const ifMatch = await tagOf(id);
      const changes = Array.from({ length: 50 }, (_, index) =>
        writes.change(id, { name: `Hotel ${round}-${index}` }, { ifMatch }),
      );
      const answers = await storm(changes);
      assert.equal(countDone(answers, [409, 412]), 1);
      const winner = answers.findIndex(({ status }) => status === 200);
      await changes[winner]?.assertCarriedOut();
      assert.equal(answers[winner]?.headers.get('etag'), await tagOf(id));
    }
  });

  test('also of changes to the values that the record has already, and the next tag is good again', async () => {
    const { id, ifMatch } = await existing();
    let tag = ifMatch;
    for (let round = 0; round < 2; round++) {
      const ofRound = tag;
      const changes = Array.from({ length: 20 }, () =>
        writes.change(id, { name: 'Hotel Miramar' }, { ifMatch: ofRound }),
      );
      const answers = await storm(changes);
      assert.equal(countDone(answers, [409, 412]), 1);
      const late = await writes.change(id, { name: 'Hotel Miramar' }, { ifMatch: ofRound }).send(other.url);
      assertAnswerIs(late, 412, 'precondition_failed');
      tag = answers.find(({ status }) => status === 200)?.headers.get('etag') as string;
      assert.notEqual(tag, ofRound);
    }
  });

  test('of changes and deletions at once exactly one succeeds', async () => {
    for (let round = 0; round < 2; round++) {
      const { id, ifMatch } = await existing();
      const mixed = Array.from({ length: 30 }, (_, index) =>
        index % 3 === 0
          ? writes.deletion(id, { ifMatch })
          : writes.change(id, { name: `Hotel ${index}` }, { ifMatch }),
      );
      assert.equal(countDone(await storm(mixed), [404, 409, 412]), 1);
      // Each is repeated as asked and gets its final answer, and no second one succeeds.
      const again = [];
      for (const write of mixed) again.push(await write.send(other.url));
      assert.equal(countDone(again, [404, 412]), 1);
    }
  });

  test('a change without a tag waits for one that is between its check and its write', async () => {
    const { id, ifMatch } = await existing();
    const hold = await ownOrg.org.arm({
      match: { operation: 'update', recordKey: 'Hotel Alhambra' },
      effect: { kind: 'hold', stage: 'before' },
      times: 1,
    });
    const tagged = writes.change(id, { name: 'Hotel Alhambra' }, { ifMatch });
    const running = tagged.send(one.url);
    await hold.hit();
    const read = await ownOrg.org.arm({
      match: { operation: 'query', recordKey: id },
      effect: { kind: 'latency', ms: 0 },
    });
    const free = writes.change(id, { name: 'Hotel Carmen' });
    const waiting = free.send(other.url);
    // It has read the record twice: it was kept from writing in between.
    await read.hit(2);
    await hold.release();
    tagged.assertDone(await running);
    free.assertDone(await waiting);
    await free.assertCarriedOut();
    await ownOrg.org.disarm();
  });

  test('a change with a tag is asked to wait while one without is under way', async () => {
    const { id, ifMatch } = await existing();
    const hold = await ownOrg.org.arm({
      match: { operation: 'update', recordKey: 'Hotel Carmen' },
      effect: { kind: 'hold', stage: 'before' },
      times: 1,
    });
    const free = writes.change(id, { name: 'Hotel Carmen' });
    const running = free.send(other.url);
    await hold.hit();
    const tagged = writes.change(id, { name: 'Hotel Alhambra' }, { ifMatch });
    assertInProgress(await tagged.send(one.url));
    await hold.release();
    free.assertDone(await running);
    assertAnswerIs(await tagged.send(one.url), 412, 'precondition_failed');
  });

  test('the others wait for the lease of a gateway that was killed before its write, then one succeeds', async () => {
    const { id, ifMatch } = await existing();
    const call = await ownOrg.org.arm({
      match: { operation: 'update', recordKey: 'Hotel Alhambra' },
      effect: { kind: 'hang' },
      times: 1,
    });
    const first = writes.change(id, { name: 'Hotel Alhambra' }, { ifMatch });
    const cut = first.send(other.url).catch(() => undefined);
    await call.hit();
    other.signal('SIGKILL');
    await other.ended;
    await cut;
    const rest = Array.from({ length: 10 }, (_, index) =>
      writes.change(id, { name: `Hotel ${index}` }, { ifMatch }),
    );
    for (const answer of await Promise.all(rest.map((write) => write.send(one.url))))
      assertInProgress(answer);
    await claims.endLease(first.key);
    assert.equal(countDone(await Promise.all(rest.map((write) => write.send(one.url))), [409, 412]), 1);
    // What the dead gateway sent has no effect, and its repeat sees that somebody else was first.
    other = await cluster.start(1);
    assertAnswerIs(await first.send(other.url), 409, 'conflict');
  });

  test('a change whose outcome nobody knows makes the others wait; its own repeat goes on at once', async () => {
    const { id, ifMatch } = await existing();
    const change = { operation: 'update', recordKey: 'Hotel Alhambra' };
    await ownOrg.org.arm({ match: change, effect: { kind: 'reset' }, times: 1 });
    // Nor can the gateway look what became of it.
    const [record] = await ownOrg.org.records('Quote__c', { External_Id__c: id });
    const look = await ownOrg.org.arm({
      match: { operation: 'query', recordKey: record?.['Id'] },
      effect: { kind: 'error', status: 400, errorCode: 'MALFORMED_QUERY', message: 'no' },
    });
    const first = writes.change(id, { name: 'Hotel Alhambra' }, { ifMatch });
    const { detail } = assertAnswerIs(await first.send(one.url), 503, 'crm_unavailable');
    assert.match(detail, /unknown whether/);
    await look.remove();
    const second = writes.change(id, { name: 'Hotel Carmen' }, { ifMatch });
    const deletion = writes.deletion(id, { ifMatch });
    for (const write of [second, deletion]) assertInProgress(await write.send(other.url));
    first.assertDone(await first.send(other.url));
    for (const write of [second, deletion]) {
      assertAnswerIs(await write.send(one.url), 412, 'precondition_failed');
    }
  });

  test('a deletion that the CRM refused is not taken for done when somebody else has deleted the record', async () => {
    const { id, ifMatch } = await existing();
    await ownOrg.org.arm({
      match: { operation: 'delete' },
      effect: {
        kind: 'error',
        status: 403,
        errorCode: 'REQUEST_LIMIT_EXCEEDED',
        message: 'ConcurrentRequests Limit',
      },
      times: 4,
    });
    const refused = writes.deletion(id, { ifMatch });
    assertAnswerIs(await refused.send(one.url), 503, 'crm_unavailable');
    await ownOrg.org.disarm();
    const deletion = writes.deletion(id, { ifMatch });
    deletion.assertDone(await deletion.send(other.url));
    assertAnswerIs(await refused.send(one.url), 404, 'not_found');
  });
});
