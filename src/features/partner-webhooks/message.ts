import { createHmac } from 'node:crypto';
import { writeEvent } from '../events/event-feed.ts';
import type { SentEvent } from './delivery-queue.ts';

/** The event as the body of a delivery, in UTF-8; its data digit for digit. */
export function bodyOf({ event_id: id, event_type: type, ...event }: SentEvent): Buffer {
  const rest = `,"timestamp":"${event.occurred_at.toISOString()}"`;
  return Buffer.from(writeEvent({ ...event, id, type }, event.owner, rest));
}

/**
 * The headers of Standard Webhooks 1.0.0, with a signature for each secret: `v1,` and the HMAC-SHA-256 of
 * `<id>.<timestamp>.<body>`. `now` in milliseconds since 1970: of this attempt.
 */
export function signatureHeaders(
  id: string,
  body: Buffer | string,
  secrets: readonly Buffer[],
  now: number,
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const sign = (secret: Buffer) =>
    `v1,${createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map(sign).join(' '),
  };
}
