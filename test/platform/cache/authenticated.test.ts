import assert from 'node:assert/strict';
import { createSecretKey, randomBytes, randomUUID } from 'node:crypto';
import { after, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createAuthenticatedCache } from '../../../src/platform/cache/authenticated.ts';
import { createMemoryCache } from '../../../src/platform/cache/memory.ts';
import type { SharedCache } from '../../../src/platform/cache/shared-cache.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { KeySet } from '../../../src/platform/secrets/key-set.ts';
import { sharedCacheConformance } from '../../conformance/shared-cache.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';

/** A key in these versions, the first in use. */
function keySet(...versions: number[]): KeySet {
  const found = versions.map((version) => [version, keys.get(version) as never] as const);
  const [[version, key] = assert.fail()] = found;
  return { current: { version, key }, get: (wanted) => new Map(found).get(wanted) };
}

const keys = new Map([1, 2, 3].map((version) => [version, createSecretKey(randomBytes(32))]));

function authenticated(cache: SharedCache, ...versions: number[]) {
  const metrics = createMetrics();
  const { log, lines } = recordLog();
  return {
    cache: createAuthenticatedCache({ cache, keys: keySet(...versions), log, metrics }),
    rejected: async () => (await metrics.cacheRejected.get()).values[0]?.value,
    lines,
  };
}

let time = 1_000;
const inner = createMemoryCache({ now: () => time });
after(() => inner.close());

sharedCacheConformance('the authenticated cache', () => ({
  cache: authenticated(inner, 1).cache,
  elapse: async (ms) => {
    time += ms;
  },
}));

describe('what no replica has put into the cache', () => {
  const values = ['{"a":1}', 'text', '', '{}', '{"mac":"1"}', `{"a":"\u2028"}\n`];

  for (const value of values) {
    it(`keeps ${JSON.stringify(value)}, and takes nothing in its place`, async () => {
      const { cache, rejected } = authenticated(inner, 1);
      const [key, other] = [randomUUID(), randomUUID()];
      await cache.set(key, value, 60_000);
      const sealed = (await inner.get(key)) as string;
      assert.equal(await cache.get(key), value);
      const forged = [
        value,
        `${sealed} `,
        sealed.replace(/.(?=.{20}$)/, (character) => (character === 'A' ? 'B' : 'A')),
      ];
      for (const text of forged) {
        await inner.set(key, text, 60_000);
        assert.equal(await cache.get(key), undefined, text);
      }
      await inner.set(other, sealed, 60_000);
      assert.equal(await cache.get(other), undefined, 'that of another key');
      assert.equal(await rejected(), 4);
    });
  }

  it('makes room for what is stored only where nothing is, and is logged once', async () => {
    const { cache, lines } = authenticated(inner, 1);
    const key = randomUUID();
    for (let round = 0; round < 3; round++) {
      await inner.set(key, 'forged', 60_000);
      assert.equal(await cache.get(key), undefined);
    }
    assert.equal(await cache.setIfEqual(key, undefined, 'ours', 60_000), true);
    assert.equal(await cache.get(key), 'ours');
    assert.equal(lines.length, 1);
  });

  it('is not heard, nor what was sent on another channel', async () => {
    const { cache, rejected } = authenticated(inner, 1);
    const heard: string[] = [];
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const [one, two] = [randomUUID(), randomUUID()];
    const sent: string[] = [];
    inner.subscribe(one, (message) => sent.push(message));
    cache.subscribe(one, (message) => (message === 'end' ? end() : heard.push(message)));
    cache.subscribe(two, (message) => heard.push(message));
    await cache.publish(one, '{"type":"outcomes"}');
    await eventually(() => assert.notEqual(sent.length, 0), { pause: turn });
    await inner.publish(two, sent[0] as string);
    await inner.publish(one, '{"type":"outcomes"}');
    await cache.publish(one, 'end');
    await ended;
    assert.deepEqual(heard, ['{"type":"outcomes"}']);
    assert.equal(await rejected(), 2);
  });

  it('is read under any version of the key that a replica has', async () => {
    const key = randomUUID();
    await authenticated(inner, 1).cache.set(key, 'value', 60_000);
    assert.equal(await authenticated(inner, 2, 1).cache.get(key), 'value');
    assert.equal(await authenticated(inner, 2).cache.get(key), undefined);
  });

  it('is replaced and deleted under any version of the key that a replica has', async () => {
    const key = randomUUID();
    const [older, newer] = [authenticated(inner, 1, 2).cache, authenticated(inner, 2, 1).cache];
    await older.set(key, 'one', 60_000);
    assert.equal(await newer.setIfEqual(key, 'other', 'two', 60_000), false);
    assert.equal(await newer.setIfEqual(key, 'one', 'two', 60_000), true);
    assert.equal(await older.setIfEqual(key, 'two', 'three', 60_000), true);
    assert.equal(await newer.deleteIfEqual(key, 'two'), false);
    assert.equal(await newer.deleteIfEqual(key, 'three'), true);
    assert.equal(await inner.get(key), undefined);
  });
});
