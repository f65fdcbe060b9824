import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate, wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { type Polling, startPolling } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { type CrmWebhookMetrics, type ProcessorOptions, WebhookProcessor } from './processor.ts';
import { createWebhookSecrets } from './secrets.ts';
import { isMemberEvent, type ReceivedWebhook, WebhooksTable } from './webhooks-table.ts';

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
type SignatureFault = 'headers' | 'timestamp' | 'signature' | 'no secret';

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

interface WebhooksOptions {
  database: Database;
  secrets: SecretsManager;
  log: Log;
  metrics: CrmWebhookMetrics;
  refreshSeconds: number;
  retentionDays: number;
  apply: ProcessorOptions['apply'];
  onReceived: () => void;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

export function createWebhooks(options: WebhooksOptions) {
  const { database, log, metrics, apply, retentionDays, clock = wallMs } = options;
  const table = new WebhooksTable(database);
  const secrets = createWebhookSecrets(options);
  const processor = new WebhookProcessor({ table, apply, log, metrics });
  let processing: Polling | undefined;
  const count = (result: string) => metrics.webhooks.inc({ result });
  return {
    /** Why a request with these headers and this body is refused; undefined where it is not. Throws `secrets_unavailable`. */
    checkSignature(headers: IncomingHttpHeaders, body: Buffer): SignatureFault | undefined {
      if (secrets.value === undefined) {
        const detail = "The secrets manager that holds the webhook secrets isn't available.";
        throw new Problem('secrets_unavailable', detail, { retryAfter: 5 });
      }
      const fault = checkSignature(headers, body, secrets.value, clock());
      if (fault !== undefined) count('refused');
      return fault;
    },
    /** Stores a webhook, and has it processed soon if its id is new. Throws `store_unavailable`. */
    async receive(webhook: ReceivedWebhook): Promise<'accepted' | 'duplicate'> {
      const isNew = await orUnavailable(() => table.add(webhook), { keeps: 'keeps webhooks', retryAfter: 5 });
      count(isNew ? 'accepted' : 'duplicate');
      options.onReceived();
      // Later, so that the sender is answered first. A repeat wakes it too: the answer to the first one may have been lost,
      // and with it the wake-up.
      if (isMemberEvent(webhook.type)) setImmediate(() => processing?.wake());
      else if (isNew) count('ignored');
      return isNew ? 'accepted' : 'duplicate';
    },
    /** Deletes what is older than its retention. Throws what the database does. */
    deleteOld: async (signal?: AbortSignal): Promise<void> =>
      void (await table.deleteOlderThan(retentionDays, signal)),
    async start(): Promise<void> {
      await secrets.start();
      processing = startPolling({ what: 'webhooks', check: (stopping) => processor.run(stopping), log });
      processing.wake();
    },
    async stop(): Promise<void> {
      await processing?.stop();
      await secrets.stop();
    },
  };
}

export type Webhooks = ReturnType<typeof createWebhooks>;
