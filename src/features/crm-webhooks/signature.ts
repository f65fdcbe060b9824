import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** How far the time of a signature may be from ours, either way, in seconds. */
const toleranceSeconds = 300;
/** Signatures of one header that are checked; a sender sends one for each secret that it changes between. */
const maxSignatures = 10;
const signatureBytes = 32;

/** The dot separates what is signed, so that an id has none. */
const idPattern = /^[\x21-\x2d\x2f-\x7e]{1,255}$/;
const timestampPattern = /^\d{1,12}$/;
const signaturePattern = /^v1,([A-Za-z0-9+/]{43}=)$/;

/** Why a webhook is refused; for the log, never for the sender. */
export type SignatureFault = 'headers' | 'timestamp' | 'signature' | 'no secret';

/**
 * Why a webhook is refused by Standard Webhooks 1.0.0; undefined where it is not. `webhook-signature` has a
 * `v1,<base64>` for each secret of the sender, each the HMAC-SHA-256 of `<webhook-id>.<webhook-timestamp>.<body>`; one
 * that fits one of our secrets is enough. Signatures of other versions are skipped. `now` in milliseconds since 1970.
 */
export function checkSignature(
  headers: IncomingHttpHeaders,
  body: Buffer,
  secrets: readonly Buffer[],
  now: number,
): SignatureFault | undefined {
  const signed = readHeaders(headers);
  if (signed === undefined) return 'headers';
  const { id, timestamp, list } = signed;
  if (Math.abs(now / 1000 - Number(timestamp)) > toleranceSeconds) return 'timestamp';
  if (secrets.length === 0) return 'no secret';
  const given = readSignatures(list);
  let isValid = false;
  for (const secret of secrets) {
    const expected = createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest();
    // All are compared, so that the time it takes does not depend on which one fits.
    for (const signature of given) isValid = timingSafeEqual(signature, expected) || isValid;
  }
  return isValid ? undefined : 'signature';
}

function readHeaders(headers: IncomingHttpHeaders) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': list } = headers;
  if (typeof id !== 'string' || !idPattern.test(id)) return undefined;
  if (typeof timestamp !== 'string' || !timestampPattern.test(timestamp)) return undefined;
  return typeof list === 'string' ? { id, timestamp, list } : undefined;
}

function readSignatures(list: string): Buffer[] {
  return list
    .split(' ', maxSignatures)
    .map((text) => Buffer.from(signaturePattern.exec(text)?.[1] ?? '', 'base64'))
    .filter(({ length }) => length === signatureBytes);
}
