import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { describe, it } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import {
  apiKeyPattern,
  apiSecretPattern,
  consumerIdOf,
  hashSecret,
  hasValidChecksum,
  isConsumerId,
  isSameHash,
  makeConsumerId,
  makeCredentialPair,
  maxCredentialLength,
  randomBase62,
} from '../../../src/identity/consumers/credentials.ts';
import { modeOf } from '../../../src/platform/base/call.ts';
import { anyText } from '../../support/any-text.ts';

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const consumerIds = fc.constant(null).map(() => makeConsumerId());
const credentials = consumerIds.chain((id) => {
  const { apiKey, apiSecret } = makeCredentialPair(id);
  return fc.constantFrom(apiKey, apiSecret);
});

describe('format of credentials', () => {
  it('has the consumer in its API key and a right checksum in both parts', () => {
    fc.assert(
      fc.property(consumerIds, (id) => {
        const { apiKey, apiSecret } = makeCredentialPair(id);
        assert.ok(isConsumerId(id));
        assert.equal(consumerIdOf(apiKey), id);
        assert.ok(hasValidChecksum(apiKey) && hasValidChecksum(apiSecret));
        assert.match(apiKey, new RegExp(`^${apiKeyPattern}$`));
        assert.match(apiSecret, new RegExp(`^${apiSecretPattern}$`));
        assert.ok(apiKey.length <= maxCredentialLength && apiSecret.length <= maxCredentialLength);
        assert.equal(consumerIdOf(apiSecret), undefined);
      }),
    );
  });

  it('shows the mode by the id and by both parts, and belongs to no consumer where they differ', () => {
    const withChecksum = (text: string) => {
      let rest = crc32(text);
      let checksum = '';
      for (let i = 0; i < 6; i++, rest = Math.floor(rest / 62)) checksum = base62[rest % 62] + checksum;
      return text + checksum;
    };
    for (const mode of ['live', 'test'] as const) {
      const id = makeConsumerId(mode);
      const { apiKey, apiSecret } = makeCredentialPair(id);
      assert.equal(modeOf(id), mode);
      assert.ok(isConsumerId(id));
      assert.equal(consumerIdOf(apiKey), id);
      const t = mode === 'test' ? 't' : '';
      assert.ok(apiKey.startsWith(`hgk${t}_`) && apiSecret.startsWith(`hgs${t}_`));
      const [, idPart, random = ''] = apiKey.split('_');
      const swapped = withChecksum(`hgk${mode === 'test' ? '' : 't'}_${idPart}_${random.slice(0, -6)}`);
      assert.ok(hasValidChecksum(swapped));
      assert.equal(consumerIdOf(swapped), undefined);
    }
  });

  it('ends in the CRC-32 of all before it, in base62', () => {
    const { apiSecret } = makeCredentialPair(makeConsumerId());
    const number = [...apiSecret.slice(-6)].reduce(
      (sum, character) => sum * 62 + base62.indexOf(character),
      0,
    );
    assert.equal(number, crc32(apiSecret.slice(0, -6)));
  });

  it('fails the checksum when any one character is changed, dropped or doubled', () => {
    const position = fc.nat({ max: maxCredentialLength });
    const character = fc.oneof(
      fc.constantFrom(...base62, '_', ' ', '\n'),
      fc.string({ minLength: 1, maxLength: 2 }),
    );
    fc.assert(
      fc.property(credentials, position, character, (text, at, other) => {
        const i = at % text.length;
        const changed = text.slice(0, i) + other + text.slice(i + 1);
        fc.pre(changed !== text);
        assert.equal(hasValidChecksum(changed), false);
        assert.equal(consumerIdOf(changed), undefined);
        assert.equal(hasValidChecksum(text.slice(0, i) + text.slice(i + 1)), false);
        assert.equal(hasValidChecksum(text.slice(0, i) + text.slice(i, i + 1) + text.slice(i)), false);
      }),
    );
  });

  it('says no to any other text, however long', () => {
    fc.assert(
      fc.property(anyText(200), (text) => {
        assert.equal(hasValidChecksum(text), false);
        assert.equal(consumerIdOf(text), undefined);
      }),
    );
    assert.equal(hasValidChecksum('hgs_'.repeat(1_000_000)), false);
  });

  it('is found by a scanner in the middle of other text', () => {
    const { apiKey, apiSecret } = makeCredentialPair(makeConsumerId());
    const source = `curl -H "x-api-key: ${apiKey}" -H 'x-api-secret:${apiSecret}'\n`;
    assert.deepEqual(source.match(new RegExp(apiKeyPattern, 'g')), [apiKey]);
    assert.deepEqual(source.match(new RegExp(apiSecretPattern, 'g')), [apiSecret]);
  });

  it('draws every character equally often', () => {
    const counts = new Map<string, number>();
    const drawn = 62 * 2000;
    for (const character of randomBase62(drawn)) counts.set(character, (counts.get(character) ?? 0) + 1);
    assert.deepEqual([...counts.keys()].sort(), [...base62].sort());
    // With modulo bias the first eight characters would come 25 % more often; chance alone stays far below 15 %.
    for (const count of counts.values()) assert.ok(Math.abs(count - 2000) < 300);
  });
});

describe('the hash of a secret', () => {
  it('is HMAC-SHA-256 (RFC 4231, test case 2)', () => {
    const hash = hashSecret('what do ya want for nothing?', createSecretKey('Jefe', 'utf8'));
    assert.equal(hash.toString('hex'), '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');
  });

  it('is the same as another only where each byte is, and never as one that was cut off', () => {
    const hash = hashSecret('a', createSecretKey(Buffer.alloc(32, 1)));
    assert.ok(isSameHash(hash, Buffer.from(hash)));
    for (let at = 0; at < hash.length; at++) {
      const other = Buffer.from(hash);
      other[at] = (other[at] ?? 0) ^ 1;
      assert.ok(!isSameHash(hash, other));
    }
    for (const length of [0, 31]) assert.ok(!isSameHash(hash, hash.subarray(0, length)));
  });
});
