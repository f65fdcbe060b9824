import { hash } from 'node:crypto';
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
