import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { useGateway } from '../support/gateway.ts';
import {
  assertAnswerIs,
  assertFinishes,
  assertReplays,
  type KeyedWrite,
  KeyedWrites,
} from '../support/keyed-writes.ts';
import type { Org } from '../support/org.ts';
import { untilCrmIsBack } from '../support/recovery.ts';

const unknown = /It's unknown whether the write took effect; the same request with the same Idempotency-Key/;

/** What may happen to one call that writes, and what the caller gets. */
const mishaps = {
  'its answer is lost': { effect: { kind: 'loseAnswer' }, status: 503, code: 'crm_unavailable' },
  'it breaks before it is done': { effect: { kind: 'reset' }, status: 503, code: 'crm_unavailable' },
  'it hangs': { effect: { kind: 'hang' }, status: 504, code: 'crm_timeout' },
  'its answer comes too late': {
    effect: { kind: 'lateAnswer', ms: 60_000 },
    status: 504,
    code: 'crm_timeout',
  },
};
const broken = { kind: 'error', status: 400, errorCode: 'MALFORMED_QUERY', message: 'x' };
/** Nobody can look records up. */
const unreadable = { match: { method: 'GET', path: '/query' }, effect: broken };
/** Nobody can look after a change whose outcome is not known. */
const lookless = { match: { operation: 'query', path: 'WHERE Id IN' }, effect: broken };
type Mishap = (typeof mishaps)[keyof typeof mishaps];

describe('a write that meets a fault of the CRM', () => {
  const gateway = useGateway({ CRM_TIMEOUT_MS: '1000', SHUTDOWN_SECONDS: '1' });
  let writes: KeyedWrites;

  before(async () => {
    writes = new KeyedWrites(gateway.org, gateway.console);
  });

  const existing = () => writes.existing(gateway.url);
  const send = (write: KeyedWrite) => write.send(gateway.url);
  const rowsWritten = async () => (await gateway.org.counters())['rowsWritten'];

  /** Does something while the CRM has these faults. */
  async function during<T>(work: () => Promise<T>, ...faults: Parameters<Org['arm']>[0][]): Promise<T> {
    const armed = await Promise.all(faults.map((fault) => gateway.org.arm(fault)));
    try {
      return await work();
    } finally {
      for (const { remove } of armed) await remove();
    }
  }

  /** Sends the write into the mishap; the outcome is then unknown, and says so. */
  async function interrupt(write: KeyedWrite, { effect, status, code }: Mishap): Promise<void> {
    const answer = await during(() => send(write), { match: { path: '/sobjects/' }, effect }, lookless);
    assert.match(assertAnswerIs(answer, status, code).detail, unknown);
    await untilCrmIsBack(() => gateway.request(`/v1/quotes/${randomUUID()}`));
  }

  const finish = (write: KeyedWrite) => assertFinishes(write, gateway.url);

  for (const [what, mishap] of Object.entries(mishaps)) {
    test(`a change, where ${what}, is continued at once`, async () => {
      const write = writes.change(await existing(), { name: 'Hotel Alhambra' });
      await interrupt(write, mishap);
      await finish(write);
    });

    test(`a deletion, where ${what}, is continued at once`, async () => {
      const write = writes.deletion(await existing());
      await interrupt(write, mishap);
      await finish(write);
    });
  }

  for (const what of ['its answer is lost', 'its answer comes too late'] as const) {
    test(`a creation and a hand-off, where ${what}, look for their record at once`, async () => {
      for (const write of [writes.creation(), writes.handOff()]) {
        const once = { match: { operation: 'create' }, effect: mishaps[what].effect, times: 1 };
        const answer = await during(() => send(write), once);
        write.assertDone(answer);
        await assertReplays(write, gateway.url, answer);
        await write.assertCarriedOut();
      }
    });

    test(`a hand-off, where ${what} and nobody can look, is continued at once`, async () => {
      const write = writes.handOff();
      const { effect, status, code } = mishaps[what];
      const once = { match: { operation: 'create' }, effect, times: 1 };
      const answer = await during(() => send(write), once, unreadable);
      assert.match(assertAnswerIs(answer, status, code).detail, unknown);
      const [record] = await write.records();
      await finish(write);
      assert.deepEqual(await write.records(), [record]);
    });
  }

  test('a creation and a hand-off that hang each time are continued at once', async () => {
    for (const write of [writes.creation(), writes.handOff()]) {
      await interrupt(write, mishaps['it hangs']);
      assert.deepEqual(await write.records(), []);
      await finish(write);
    }
  });

  test('a change that came through is not written again, whatever If-Match said', async () => {
    const id = await existing();
    const { headers } = await gateway.request(`/v1/quotes/${id}`);
    const ifMatch = headers.get('etag') as string;
    const write = writes.change(id, { name: 'Hotel Alhambra' }, { ifMatch });
    await interrupt(write, mishaps['its answer is lost']);
    const [record] = await write.records();
    const rows = await rowsWritten();
    await finish(write);
    assert.equal(await rowsWritten(), rows);
    assert.deepEqual(await write.records(), [record]);
  });

  test('a change that did not come through is written with If-Match as it was checked before', async () => {
    const id = await existing();
    const { headers } = await gateway.request(`/v1/quotes/${id}`);
    const write = writes.change(id, { name: 'Hotel Alhambra' }, { ifMatch: headers.get('etag') as string });
    await interrupt(write, mishaps['it breaks before it is done']);
    await finish(write);
  });

  test('somebody else has changed the record meanwhile: a conflict, stored and replayed', async () => {
    const id = await existing();
    const write = writes.change(id, { name: 'Hotel Alhambra' });
    await interrupt(write, mishaps['it breaks before it is done']);
    const others = writes.change(id, { source: 'another' });
    await finish(others);
    const answer = await send(write);
    assertAnswerIs(answer, 409, 'conflict');
    await assertReplays(write, gateway.url, answer);
    const [record] = await write.records();
    assert.equal(record?.['Name__c'], 'Hotel Miramar');
  });

  test('somebody else has deleted the record meanwhile: 404 for the change, 204 for a deletion', async () => {
    const id = await existing();
    const change = writes.change(id, { name: 'Hotel Alhambra' });
    const deletion = writes.deletion(id);
    await interrupt(change, mishaps['it breaks before it is done']);
    await interrupt(deletion, mishaps['it breaks before it is done']);
    await finish(writes.deletion(id));
    const answer = await send(change);
    assertAnswerIs(answer, 404, 'not_found');
    await assertReplays(change, gateway.url, answer);
    await finish(deletion);
  });

  test('a deletion of what never existed is 404, stored and replayed', async () => {
    const write = writes.deletion(randomUUID());
    const answer = await send(write);
    assertAnswerIs(answer, 404, 'not_found');
    await assertReplays(write, gateway.url, answer);
  });
});
