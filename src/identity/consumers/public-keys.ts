import { createHash, createPublicKey, type JsonWebKey } from 'node:crypto';
import { Type } from 'typebox';
import { Problem } from '../../platform/base/problem.ts';

export const maxPublicKeys = 5;

/** A public key (RFC 7517), as it is stored: without what a JWK may have beside these. */
export interface PublicKey {
  kty: string;
  crv?: string;
  x?: string;
  y?: string;
  n?: string;
  e?: string;
  kid?: string;
  alg?: string;
  use?: string;
}

/** Loose, since a newer version may know more kinds of keys: those that this one cannot use are passed over. */
const text = Type.Optional(Type.String());
export const storedPublicKeySchema = Type.Object({
  kty: Type.String(),
  crv: text,
  x: text,
  y: text,
  n: text,
  e: text,
  kid: text,
  alg: text,
  use: text,
});

interface Kind {
  crv?: string;
  /** Fields that identify the key, in the order of RFC 7638. */
  fields: readonly (keyof PublicKey)[];
  algorithms: readonly string[];
}

const kinds: Readonly<Record<string, Kind>> = {
  RSA: { fields: ['e', 'kty', 'n'], algorithms: ['RS256', 'PS256'] },
  EC: { crv: 'P-256', fields: ['crv', 'kty', 'x', 'y'], algorithms: ['ES256'] },
  // Two names of one algorithm (RFC 9864).
  OKP: { crv: 'Ed25519', fields: ['crv', 'kty', 'x'], algorithms: ['EdDSA', 'Ed25519'] },
};
export const publicKeyTypes = Object.keys(kinds);
export const assertionAlgorithms = Object.values(kinds).flatMap(({ algorithms }) => algorithms);

const kept = ['kty', 'crv', 'x', 'y', 'n', 'e', 'kid', 'alg', 'use'] as const;
const rsaBits = { least: 2048, most: 8192 };
/** Exponents from this one on only make each check slow. */
const exponentsEnd = 2n ** 32n;

/** The algorithms with which the key may sign; none for one of another kind, or with which anybody could sign. */
export function algorithmsOf(key: PublicKey): readonly string[] {
  const { kty, crv, alg } = key;
  const kind = kinds[kty];
  if (kind === undefined || kind.crv !== crv || isEvenRsa(key) || isOfSmallOrder(key)) return [];
  return kty === 'RSA' && alg !== undefined ? kind.algorithms.filter((one) => one === alg) : kind.algorithms;
}

/** SHA-256 of the key (RFC 7638), in base64url. */
export function thumbprintOf(key: PublicKey): string {
  const fields = kinds[key.kty]?.fields ?? kept;
  const canonical = JSON.stringify(Object.fromEntries(fields.map((field) => [field, key[field]])));
  return createHash('sha256').update(canonical).digest('base64url');
}

export function publicKeyName(consumerId: string, key: PublicKey): string {
  return `${consumerId}/${thumbprintOf(key)}`;
}

/** The keys as they are stored, each once. Throws `Problem` invalid_request, which holds no key. */
export function checkPublicKeys(keys: readonly PublicKey[]): PublicKey[] {
  const errors = keys.flatMap((key, i) => {
    const message = rules.find(([, isMet]) => !isMet(key))?.[0];
    return message === undefined ? [] : [{ pointer: `#/publicKeys/${i}`, message }];
  });
  if (keys.length > maxPublicKeys)
    errors.push({ pointer: '#/publicKeys', message: `must have at most ${maxPublicKeys} keys` });
  const [first] = errors;
  if (first !== undefined)
    throw new Problem('invalid_request', `The consumer isn't valid: publicKeys ${first.message}.`, {
      errors,
    });
  const distinct = new Map(keys.map((key) => [thumbprintOf(key), key]));
  return [...distinct.values()].map(
    (key) =>
      Object.fromEntries(
        kept.flatMap((name) => (key[name] === undefined ? [] : [[name, key[name]]])),
      ) as never,
  );
}

const maxRsaText = `of RSA with ${rsaBits.least} to ${rsaBits.most} bits`;

const rules: readonly [message: string, isMet: (key: PublicKey) => boolean][] = [
  [
    'must be a public key, and this one is private: make a new one, and keep it',
    (key) => !('d' in key || 'k' in key),
  ],
  [
    'must be an RSA key, an EC key on P-256 or an OKP key on Ed25519',
    ({ kty, crv }) => kinds[kty] !== undefined && kinds[kty].crv === crv,
  ],
  [
    `must have as alg one of its kind: ${assertionAlgorithms.join(', ')}`,
    ({ kty, alg }) => alg === undefined || kinds[kty]?.algorithms.includes(alg) === true,
  ],
  ['must be for signatures: leave use out, or say sig', ({ use = 'sig' }) => use === 'sig'],
  [`must be a whole key; ${maxRsaText}`, canBeUsed],
  ['must have an odd modulus: anyone can find the private key of this one', (key) => !isEvenRsa(key)],
  ['must not be a point of small order: anyone can sign with this one', (key) => !isOfSmallOrder(key)],
];

function isEvenRsa({ kty, n = '' }: PublicKey): boolean {
  return kty === 'RSA' && ((Buffer.from(n, 'base64url').at(-1) ?? 0) & 1) === 0;
}

/**
 * The y of all points of Ed25519 whose order divides 8, in hex, little-endian, with the ones that are not reduced. The bit of the
 * sign of x is cleared.
 */
const smallOrders: ReadonlySet<string> = new Set([
  `00${'00'.repeat(31)}`,
  `01${'00'.repeat(31)}`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  `ec${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(30)}7f`,
]);

function isOfSmallOrder({ kty, x = '' }: PublicKey): boolean {
  if (kty !== 'OKP') return false;
  const y = Buffer.from(x, 'base64url');
  y[31] = (y[31] ?? 0) & 0x7f;
  return smallOrders.has(y.toString('hex'));
}

function canBeUsed(key: PublicKey): boolean {
  try {
    const { asymmetricKeyDetails } = createPublicKey({ key: key as JsonWebKey, format: 'jwk' });
    const { modulusLength: bits = rsaBits.least, publicExponent = 3n } = asymmetricKeyDetails ?? {};
    return (
      bits >= rsaBits.least && bits <= rsaBits.most && publicExponent >= 3n && publicExponent < exponentsEnd
    );
  } catch {
    return false;
  }
}
