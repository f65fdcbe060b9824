import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, deflate, inflate } from 'node:zlib';
import { Problem } from '../../platform/base/problem.ts';
import type { Span } from '../../platform/base/span.ts';
import { isUuid } from '../../platform/base/text.ts';

/**
 * Starts the name under which claims of requests without a key are kept: no consumer's id does, so no key that is sent ever meets
 * them.
 */
export const claimant = 'repeat of ';

export function consumerOfClaim(name: string): string {
  return name.startsWith(claimant) ? name.slice(claimant.length) : name;
}

export interface KeyedRequest {
  consumerId: string;
  /** In lower case. */
  key: string;
  operation: string;
  fingerprint: Buffer;
  /** Fingerprint that the request has of a caller who sees all records, where this one sees its own; or the other way round. */
  otherFingerprint?: Buffer | undefined;
  externalId: string;
  /** The record that the request is about, where its path names one; else it is the External ID. */
  recordId?: string | undefined;
  records?: readonly string[] | undefined;
  actor?: string | undefined;
  isActorProven?: boolean;
  overwrites?: string | undefined;
  /** For a request without a key: for so long after its arrival the same one counts as its repeat. */
  repeatWindowSeconds?: number | undefined;
  span?: Span | undefined;
}

export type ClaimKey = Pick<KeyedRequest, 'consumerId' | 'key'>;

export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

export interface RequestIdentity {
  method: string;
  path: string;
  ifMatch: string | undefined;
  scope?: string | undefined;
  body: Uint8Array;
}

/** SHA-256 of the request; the separator can't occur in what it separates. */
export function fingerprint({ method, path, ifMatch, scope, body }: RequestIdentity): Buffer {
  const head = Buffer.from(
    `${method}\0${path}\0${ifMatch ?? ''}\0${scope === undefined ? '' : `${scope}\0`}`,
  );
  return hash('sha256', Buffer.concat([head, body]), 'buffer');
}

/**
 * The value of an Idempotency-Key header: a UUID, bare or as a structured-field string, in which form it is quoted
 * (draft-ietf-httpapi-idempotency-key-header section 2.1). Both are the same key, in lower case.
 * Throws `idempotency_key_invalid`.
 */
export function parseIdempotencyKey(header: string): string {
  const bare = header.startsWith('"') && header.endsWith('"') ? header.slice(1, -1) : header;
  if (isUuid(bare)) return bare.toLowerCase();
  const message = 'must be one UUID, e.g. 8e03978e-40d5-43e8-bc93-6894a57f9324, bare or in double quotes';
  throw new Problem('idempotency_key_invalid', `The Idempotency-Key header ${message}.`, {
    errors: [{ header: 'Idempotency-Key', message }],
  });
}

export interface PackedAnswer extends Omit<StoredAnswer, 'body'> {
  text: string | null;
  compressed: Buffer | null;
}

/** Shorter bodies, which most answers have, are not compressed. In UTF-16 code units. */
const leastCompressed = 4096;
/** More than any answer has: a manipulated row must not fill the memory. */
const mostBytes = 64 * 1024 * 1024;

const compress = promisify<Buffer, object, Buffer>(deflate);
const expand = promisify<Uint8Array, object, Buffer>(inflate);

/** Compresses a long body with zlib at its fastest level (RFC 1950), outside the event loop. */
export async function packAnswer({ body, ...answer }: StoredAnswer): Promise<PackedAnswer> {
  if (body.length < leastCompressed) return { ...answer, text: body, compressed: null };
  const plain = Buffer.from(body);
  const compressed = await compress(plain, { level: constants.Z_BEST_SPEED });
  if (compressed.length >= plain.length) return { ...answer, text: body, compressed: null };
  return { ...answer, text: null, compressed };
}

/** The body that was packed, byte for byte. Throws where the bytes are not what `packAnswer` made. */
export async function expandBody(compressed: Uint8Array): Promise<string> {
  return (await expand(compressed, { maxOutputLength: mostBytes })).toString();
}

export function storedBytes({ text, compressed }: Pick<PackedAnswer, 'text' | 'compressed'>): number {
  return compressed?.length ?? Buffer.byteLength(text ?? '');
}
