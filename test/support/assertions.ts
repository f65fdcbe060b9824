import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { type JWTPayload, SignJWT } from 'jose';

/** A partner with a key of its own. */
export interface Partner {
  id: string;
  privateKey: KeyObject;
  alg: string;
  kid?: string;
}

const kinds = {
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  PS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  EdDSA: () => generateKeyPairSync('ed25519'),
  Ed25519: () => generateKeyPairSync('ed25519'),
};
export type Algorithm = keyof typeof kinds;
export const algorithms = Object.keys(kinds) as Algorithm[];

export function makeKeys(alg: Algorithm) {
  const { privateKey, publicKey } = kinds[alg]();
  return { alg, privateKey, jwk: publicKey.export({ format: 'jwk' }) };
}

/** A right assertion, but for what is said here. */
export function assertionOf(
  { id, privateKey, alg, kid }: Partner,
  issuer: string,
  claims: JWTPayload = {},
  header: object = {},
): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const usual = { iss: id, sub: id, aud: issuer, iat: now, exp: now + 60, jti: randomUUID() };
  return new SignJWT({ ...usual, ...claims })
    .setProtectedHeader({ alg, ...(kid !== undefined && { kid }), ...header })
    .sign(privateKey);
}
