import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { requestWithoutKey } from '../../../../src/api/idempotency/repeat-window.ts';
import { startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

const windowSeconds = 600;

describe('the window for repeats of hand-offs without a key', () => {
  const gateway = useGateway({ HANDOFF_REPEAT_WINDOW_SECONDS: String(windowSeconds) });
  afterEach(() => gateway.org.disarm());

  /** The bytes of a hand-off that nobody has sent before. */
  const offer = (type = 'quote') =>
    JSON.stringify({
      type,
      trip_id: randomUUID(),
      member_id: gateway.org.memberId,
      result: { name: 'Hotel Miramar', source: 'hotelbeds', details: { net: '612.40' } },
    });
  const handOff = (body: string, options: { key?: string; as?: TestGateway['admin'] } = {}) =>
    gateway.request('/api/v1/handoff', {
      method: 'POST',
      body,
      ...(options.as && { as: options.as }),
      headers: options.key === undefined ? {} : { 'idempotency-key': options.key },
    });
  const made = (body: string) =>
    gateway.org.records('Quote__c', { Trip_Id__c: (JSON.parse(body) as { trip_id: string }).trip_id });

  test('a repeat of the same bytes gets the same answer, and makes no second record', async () => {
    const body = offer();
    const first = await handOff(body);
    assert.equal(first.status, 201);
    assert.equal(first.headers.get('idempotent-replayed'), null);
    const repeat = await handOff(body);
    assert.equal(repeat.status, 201);
    assert.equal(repeat.headers.get('idempotent-replayed'), 'true');
    assert.equal(repeat.headers.get('location'), first.headers.get('location'));
    assert.equal(await repeat.text(), await first.text());
    assert.equal((await made(body)).length, 1);
  });

  test('other bytes, another consumer and a key of its own are another hand-off', async () => {
    const body = offer();
    const other = await gateway.newConsumer({ resource: 'quotes', actions: ['write'] });
    for (const response of [
      await handOff(body),
      await handOff(`${body} `),
      await handOff(body, { as: other }),
      await handOff(body, { key: randomUUID() }),
    ]) {
      assert.equal(response.status, 201);
      assert.equal(response.headers.get('idempotent-replayed'), null);
    }
    assert.equal((await made(body)).length, 4);
  });

  test('the key that is made of the bytes is nobody’s to send', async () => {
    const body = offer();
    const first = await handOff(body);
    const { key } = requestWithoutKey(
      { consumerId: gateway.console.id, operation: 'handOff', externalId: randomUUID() },
      { method: 'POST', path: '/api/v1/handoff', body: Buffer.from(body) },
    );
    const keyed = await handOff(body, { key });
    assert.equal(keyed.headers.get('idempotent-replayed'), null);
    assert.notEqual(keyed.headers.get('location'), first.headers.get('location'));
  });

  test('while one runs the same is refused, and then gets its answer', async () => {
    const body = offer();
    const hold = await gateway.org.arm({
      match: { object: 'Quote__c', method: 'POST' },
      effect: { kind: 'hold' },
      times: 1,
    });
    const running = handOff(body);
    await hold.hit();
    const problem = await assertProblem(await handOff(body), 409, 'idempotency_in_progress');
    assert.doesNotMatch(problem.detail, /Idempotency-Key/);
    await hold.release();
    const first = await running;
    assert.equal(first.status, 201);
    const repeat = await handOff(body);
    assert.equal(repeat.headers.get('idempotent-replayed'), 'true');
    assert.equal(await repeat.text(), await first.text());
  });

  test('after a failure the next one is a new try of the same record', async () => {
    const body = offer();
    const fault = await gateway.org.arm({
      match: { object: 'Quote__c' },
      effect: { kind: 'loseAnswer' },
    });
    const failed = await handOff(body);
    assert.equal(failed.status, 503);
    const { external_id } = (await failed.json()) as { external_id: string };
    await fault.remove();
    const next = await handOff(body);
    assert.equal(next.status, 201);
    assert.equal(next.headers.get('idempotent-replayed'), null);
    assert.equal(((await next.json()) as { external_id: string }).external_id, external_id);
    assert.equal((await made(body)).length, 1);
  });

  test('after a refusal the next one is a new try, too', async () => {
    const body = offer().replace(gateway.org.memberId, randomUUID());
    for (let n = 0; n < 2; n++) {
      const refused = await handOff(body);
      assert.equal(refused.status, 422);
      assert.equal(refused.headers.get('idempotent-replayed'), null);
    }
  });

  test('a hundred at once make one record', async () => {
    const body = offer();
    const answers = await Promise.all(Array.from({ length: 100 }, () => handOff(body)));
    assert.ok(answers.every(({ status }) => status === 201 || status === 409));
    assert.equal((await made(body)).length, 1);
  });
});

test('when the window is over, the same bytes are a hand-off of their own; without one they always are', async () => {
  for (const windowSeconds of ['0.001', '0']) {
    const gateway = await startGateway({ HANDOFF_REPEAT_WINDOW_SECONDS: windowSeconds });
    try {
      const body = {
        type: 'quote',
        trip_id: randomUUID(),
        member_id: gateway.org.memberId,
        result: { name: 'Hotel Miramar', source: 'hotelbeds', details: {} },
      };
      const answers = [];
      for (let n = 0; n < 2; n++) answers.push(await gateway.request('/api/v1/handoff', { body }));
      const locations = answers.map(({ headers }) => headers.get('location'));
      assert.deepEqual(
        answers.map(({ status }) => status),
        [201, 201],
      );
      assert.equal(new Set(locations).size, 2);
    } finally {
      await gateway.stop();
    }
  }
});
