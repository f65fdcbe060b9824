import { parseJson } from './json.ts';
import type { GatewayEvent } from './types.ts';

/** What is received as a webhook is not what the gateway signed with this secret in the last five minutes. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
}

/** The headers of a request: those of fetch, of Node's http module, or any object of them. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Record<string, string | readonly string[] | undefined>;

const toleranceSeconds = 300;

/**
 * The event of a webhook, once its signature and its age are checked (Standard Webhooks). `body` is what was received, byte
 * for byte; `secret` is the `whsec_…` of the endpoint. Rejects with a WebhookVerificationError. The same event can
 * come more than once, with the same `id`.
 */
export async function unwrapWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string,
): Promise<GatewayEvent> {
  if (typeof body !== 'string' && !ArrayBuffer.isView(body)) {
    throw new TypeError('body is not text or bytes as they were received: something has parsed it before');
  }
  const id = header(headers, 'webhook-id');
  const timestamp = header(headers, 'webhook-timestamp');
  const signatures = header(headers, 'webhook-signature').split(' ', 20);
  const age = Date.now() / 1000 - Number(timestamp);
  // Of what is no number the age is NaN, which compares with nothing.
  if (!/^\d+$/.test(timestamp) || !(Math.abs(age) <= toleranceSeconds)) {
    throw new WebhookVerificationError(
      'webhook-timestamp is more than five minutes from the time of this machine',
    );
  }
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  const key = await importSecret(secret);
  for (const signature of signatures) {
    if (await isSignature(key, signature, signed))
      return parseJson(new TextDecoder().decode(bytes)) as GatewayEvent;
  }
  throw new WebhookVerificationError('no signature in webhook-signature is right');
}

function header(headers: WebhookHeaders, name: string): string {
  const value = isHeaders(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  if (typeof value !== 'string' || value === '') throw new WebhookVerificationError(`${name} is missing`);
  return value;
}

function isHeaders(headers: WebhookHeaders): headers is { get(name: string): string | null } {
  return typeof headers['get'] === 'function';
}

async function importSecret(secret: string) {
  const bytes = decodeBase64(secret.replace(/^whsec_/, ''));
  if (bytes === undefined || bytes.length === 0) throw new TypeError('the secret is not of the form whsec_…');
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
}

async function isSignature(
  key: Awaited<ReturnType<typeof importSecret>>,
  text: string,
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const bytes = text.startsWith('v1,') ? decodeBase64(text.slice(3)) : undefined;
  // Compares in constant time.
  return bytes !== undefined && crypto.subtle.verify('HMAC', key, bytes, signed);
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
