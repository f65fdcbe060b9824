import { Problem } from '../base/problem.ts';
import { isUuid } from '../base/uuid.ts';

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
