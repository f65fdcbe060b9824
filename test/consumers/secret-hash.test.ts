import assert from 'node:assert/strict';
import { createHmac, createSecretKey } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { maxCredentialLength } from '../../src/consumers/credentials.ts';
import { hashSecret, isSameHash } from '../../src/consumers/secret-hash.ts';

const peppers = fc.uint8Array({ minLength: 1, maxLength: 64 }).map((bytes) => createSecretKey(bytes));
const secrets = fc.string({ unit: 'binary', maxLength: maxCredentialLength / 2 });

describe('the hash of a secret', () => {
  it('is the HMAC-SHA-256 of its UTF-8 under the pepper, whatever was hashed before', () => {
    fc.assert(
      fc.property(peppers, fc.array(secrets, { minLength: 1 }), (pepper, texts) => {
        for (const text of texts) {
          const expected = createHmac('sha256', pepper).update(text).digest('binary');
          assert.equal(hashSecret(text, pepper), expected);
        }
      }),
    );
  });

  it('is the same as another only where each byte is', () => {
    const hashes = fc.uint8Array({ minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(hashes, fc.nat(31), fc.integer({ min: 1, max: 255 }), (bytes, at, change) => {
        const other = Buffer.from(bytes);
        other[at] = (other[at] ?? 0) ^ change;
        const text = Buffer.from(bytes).toString('latin1');
        assert.ok(isSameHash(text, Buffer.from(bytes).toString('latin1')));
        assert.ok(!isSameHash(text, other.toString('latin1')));
      }),
    );
  });

  it('is made of no text and under no key that is too long', () => {
    const pepper = createSecretKey(Buffer.alloc(32, 1));
    assert.throws(() => hashSecret('x'.repeat(maxCredentialLength + 1), pepper), RangeError);
    assert.throws(() => hashSecret('x', createSecretKey(Buffer.alloc(65, 1))), RangeError);
  });
});
