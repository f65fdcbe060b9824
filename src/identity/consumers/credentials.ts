import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { type Mode, modeOf, testIdStart } from '../../platform/base/call.ts';
import { randomBytes } from '../../platform/base/chance.ts';

/**
 * The format of API keys and secrets. Secret scanners can recognise it offline. Alphabet `0-9A-Za-z`; the
 * last six characters are the CRC-32 of all before them, zero-padded, as GitHub's tokens have it.
 *
 * - consumer id: `con_` and 16 characters
 * - API key: `hgk_`, the 16 characters of the consumer's id, `_`, 16 random characters, checksum
 * - API secret: `hgs_`, 43 random characters (256 bits), checksum
 *
 * Those of test consumers begin with `hgkt_` and `hgst_`, and the id with `con_test00`.
 */
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const idLength = 16;
const checksumLength = 6;

export const consumerIdPattern = 'con_[0-9A-Za-z]{16}';
export const apiKeyPattern = 'hgkt?_[0-9A-Za-z]{16}_[0-9A-Za-z]{22}';
export const apiSecretPattern = 'hgst?_[0-9A-Za-z]{49}';

const idExpression = new RegExp(`^${consumerIdPattern}$`);
const keyExpression = new RegExp(`^${apiKeyPattern}$`);
const eitherExpression = new RegExp(`^(?:${apiKeyPattern}|${apiSecretPattern})$`);

/** Longer texts than this are no credentials, and no work is done for them. */
export const maxCredentialLength = 64;

export interface CredentialPair {
  apiKey: string;
  apiSecret: string;
}

const prefixes = {
  live: { key: 'hgk_', secret: 'hgs_' },
  test: { key: 'hgkt_', secret: 'hgst_' },
} as const;

export function makeConsumerId(mode: Mode = 'live'): string {
  const start = mode === 'test' ? testIdStart : 'con_';
  const id = `${start}${randomBase62('con_'.length + idLength - start.length)}`;
  return modeOf(id) === mode ? id : makeConsumerId(mode);
}

export function isConsumerId(text: string): boolean {
  return text.length <= maxCredentialLength && idExpression.test(text);
}

/** The secret is to be shown once and never stored. */
export function makeCredentialPair(consumerId: string): CredentialPair {
  const idPart = consumerId.slice('con_'.length);
  const { key, secret } = prefixes[modeOf(consumerId)];
  return {
    apiKey: withChecksum(`${key}${idPart}_${randomBase62(16)}`),
    apiSecret: withChecksum(`${secret}${randomBase62(43)}`),
  };
}

/** Whether the text is an API key or an API secret whose checksum is right; it may still not be valid. */
export function hasValidChecksum(text: string): boolean {
  if (text.length > maxCredentialLength || !eitherExpression.test(text)) return false;
  return withChecksum(text.slice(0, -checksumLength)) === text;
}

/** Id of the consumer that the API key was made for; undefined for what is no API key or has a wrong checksum. */
export function consumerIdOf(apiKey: string): string | undefined {
  if (apiKey.length > maxCredentialLength || !keyExpression.test(apiKey) || !hasValidChecksum(apiKey))
    return undefined;
  const start = apiKey.indexOf('_') + 1;
  const id = `con_${apiKey.slice(start, start + idLength)}`;
  return apiKey.startsWith(prefixes[modeOf(id)].key) ? id : undefined;
}

/** Whether the text begins as API keys of test consumers do; it may still be none. */
export function looksLikeTestKey(text: string): boolean {
  return text.startsWith(prefixes.test.key);
}

/** Random characters without modulo bias: 248 is the largest multiple of 62 in a byte, the bytes above are dropped. */
export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += alphabet[byte % 62];
    }
  }
  return text;
}

function withChecksum(text: string): string {
  let rest = crc32(text);
  let checksum = '';
  for (let i = 0; i < checksumLength; i++) {
    checksum = alphabet[rest % 62] + checksum;
    rest = Math.floor(rest / 62);
  }
  return text + checksum;
}

/** HMAC-SHA-256 under the pepper, 32 bytes, which is stored in place of the API secret. */
export function hashSecret(apiSecret: string, pepper: KeyObject): Buffer {
  // By way of a text: a buffer from the pool costs a read less than one of its own, as `digest` would make.
  return Buffer.from(createHmac('sha256', pepper).update(apiSecret).digest('binary'), 'binary');
}

/** Whether two hashes are the same, in a time that does not depend on where they differ. */
export function isSameHash(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
