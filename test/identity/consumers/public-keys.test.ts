import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkPublicKeys } from '../../../src/identity/consumers/public-keys.ts';
import { Problem } from '../../../src/platform/base/problem.ts';

/** An RSA key of so many bits. */
function rsa(bits: number, exponent = 65_537n) {
  const encode = (value: bigint) => {
    const hex = value.toString(16);
    return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex').toString('base64url');
  };
  return { kty: 'RSA', n: encode(2n ** BigInt(bits - 1) + 1n), e: encode(exponent) };
}

test('an RSA key has 2048 to 8192 bits, and an exponent that is neither 1 nor needlessly large', () => {
  for (const key of [rsa(2048), rsa(8192), rsa(2048, 3n), rsa(2048, 2n ** 32n - 1n)])
    assert.deepEqual(checkPublicKeys([key]), [key]);
  for (const key of [rsa(2047), rsa(8193), rsa(2048, 1n), rsa(2048, 2n ** 32n), rsa(2048, 2n ** 32n + 1n)])
    assert.throws(
      () => checkPublicKeys([key]),
      (error) => error instanceof Problem && error.code === 'invalid_request',
    );
});
