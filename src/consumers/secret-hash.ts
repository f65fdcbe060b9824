import { hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { maxCredentialLength } from './credentials.ts';

/*
 * What is stored in place of an API secret: HMAC-SHA-256 under the pepper (RFC 2104), put together from two digests of
 * one step each. An Hmac object for each request would cost three times as much, and be garbage afterwards.
 */

const blockBytes = 64;
const hashBytes = 32;
/** In UTF-8 no character of a text takes more than three bytes for each of its UTF-16 code units. */
const secretBytes = 3 * maxCredentialLength;

/** The padded key, each time followed by room for what is digested with it. */
interface PreparedKey {
  inner: Buffer;
  outer: Buffer;
}

const preparedKeys = new WeakMap<KeyObject, PreparedKey>();
const presented = Buffer.alloc(hashBytes);
const expected = Buffer.alloc(hashBytes);

/**
 * The 32 bytes for this secret, as text of one character a byte (Node calls that binary). Throws `RangeError` for what
 * is too long to be a secret.
 */
export function hashSecret(apiSecret: string, pepper: KeyObject): string {
  if (apiSecret.length > maxCredentialLength)
    throw new RangeError('the text is too long to be an API secret');
  const { inner, outer } = prepare(pepper);
  const written = inner.write(apiSecret, blockBytes, 'utf8');
  outer.write(hash('sha256', inner.subarray(0, blockBytes + written), 'binary'), blockBytes, 'latin1');
  return hash('sha256', outer, 'binary');
}

/** Whether two hashes are the same; how long it takes does not tell where they differ. */
export function isSameHash(one: string, other: string): boolean {
  presented.write(one, 'latin1');
  expected.write(other, 'latin1');
  return timingSafeEqual(presented, expected);
}

/** Throws `RangeError` for a key that is longer than a block: it would have to be digested first. */
function prepare(pepper: KeyObject): PreparedKey {
  let prepared = preparedKeys.get(pepper);
  if (prepared === undefined) {
    const key = pepper.export();
    if (key.length > blockBytes) throw new RangeError('the pepper is longer than a block');
    prepared = { inner: Buffer.alloc(blockBytes + secretBytes), outer: Buffer.alloc(blockBytes + hashBytes) };
    for (let i = 0; i < blockBytes; i++) {
      prepared.inner.writeUInt8((key[i] ?? 0) ^ 0x36, i);
      prepared.outer.writeUInt8((key[i] ?? 0) ^ 0x5c, i);
    }
    preparedKeys.set(pepper, prepared);
  }
  return prepared;
}
