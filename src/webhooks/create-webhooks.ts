import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from '../base/problem.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import type { Database } from '../store/database.ts';
import { isMemberEvent, type WebhookEvent } from './event.ts';
import { EventTable } from './event-table.ts';
import { createProcessor, type ProcessorOptions } from './processor.ts';
import { createWebhookSecrets } from './secrets.ts';
import { type Refusal, refusalOf } from './signature.ts';

export interface WebhooksOptions {
  database: Database;
  secrets: SecretsManager;
  log: Log;
  metrics: Metrics;
  refreshSeconds: number;
  retentionDays: number;
  apply: ProcessorOptions['apply'];
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

/** Webhooks of the CRM: judged, stored, processed. */
export interface Webhooks {
  /** Why a request with these headers and this body is no webhook of ours. Throws `secrets_unavailable`. */
  refusalOf(headers: IncomingHttpHeaders, body: Buffer): Refusal | undefined;
  /** Stores a webhook, and has it processed soon if its id is new. Throws `store_unavailable`. */
  receive(event: WebhookEvent): Promise<'accepted' | 'duplicate'>;
  /** Processes what was left. Throws what the database does. */
  processDue(): Promise<void>;
  /** Deletes what is older than its retention. Throws what the database does. */
  deleteOld(): Promise<void>;
  /** Loads the secrets, and processes what a process before this one has left. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { database, log, metrics, apply, retentionDays, clock = Date.now } = options;
  const table = new EventTable(database);
  const secrets = createWebhookSecrets(options);
  const processor = createProcessor({ table, apply, log, metrics });
  const count = (result: string) => metrics.webhooks.inc({ result });
  return {
    refusalOf(headers, body) {
      const { loaded } = secrets;
      if (loaded === undefined) {
        const detail = 'The secrets manager that holds the webhook secrets is not available.';
        throw new Problem('secrets_unavailable', detail, { retryAfter: 5 });
      }
      const refusal = refusalOf(headers, body, loaded, clock());
      if (refusal !== undefined) count('refused');
      return refusal;
    },
    async receive(event) {
      const isNew = await table.add(event).catch((cause: unknown) => {
        const detail = 'The database that keeps webhooks is not available; send this one again.';
        throw new Problem('store_unavailable', detail, { retryAfter: 5, cause });
      });
      count(isNew ? 'accepted' : 'duplicate');
      // A repeat may be of one that was stored although its sender, and so the processor, was never told.
      if (isMemberEvent(event.type)) processor.wake();
      else if (isNew) count('ignored');
      return isNew ? 'accepted' : 'duplicate';
    },
    processDue: () => processor.run(),
    deleteOld: async () => void (await table.deleteOlderThan(retentionDays)),
    async start() {
      await secrets.start();
      processor.wake();
    },
    async stop() {
      await processor.stop();
      await secrets.stop();
    },
  };
}
