import { now } from '../../platform/base/chance.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { MetricRows, MetricsOf } from '../../platform/observability/metrics.ts';
import type { LeasedWebhook, WebhooksTable } from './webhooks-table.ts';

/*
 * What becomes of a webhook whose signature is right and whose id is new:
 *
 *   ── of a known type ──> received ── applied ──> processed ──┐
 *   │                       ^  │                               │
 *   │            replay, by │  └── 12 attempts failed ──> dead │
 *   │           an operator └───────────────────────────── ┴───┘
 *   └── of any other type ──> ignored
 *
 *   received   stored, and acknowledged only then. Due at once, and again some time after each attempt that failed or
 *              whose process died.
 *   processed  applied: it has had its effect, on every replica.
 *   ignored    kept, without an effect. A final state.
 *   dead       given up; an operator checks it.
 *
 * Order: of one member, only the earliest webhook that is received can be taken, by the time at which it happened. One that
 * arrives after a later one was applied is applied all the same, and marked as late: its effect, to drop what is cached,
 * undoes nothing, and leaving it out could leave something old. The time of the last applied webhook of a member is that
 * of its latest processed one.
 *
 * Once: a webhook is leased for an attempt; the number of the attempt, with those before a replay, is the fence.
 */

export const crmWebhookMetrics = {
  webhooks: {
    type: 'counter',
    name: 'handoff_webhooks_total',
    help: 'Webhooks received from Salesforce, by result.',
    labels: ['result'],
    watched: { result: 'dead' },
  },
} as const satisfies MetricRows;

export type CrmWebhookMetrics = MetricsOf<typeof crmWebhookMetrics>;

/** Together with the waits between them they take six minutes: longer than anything that was cached before can live. */
const maxAttempts = 12;
const waits = { first: 1, most: 60 };

export interface ProcessorOptions {
  table: Pick<WebhooksTable, 'take' | 'finish' | 'fail'>;
  /** Has an effect on all replicas; may throw, and is then repeated. `receivedAt` in milliseconds since 1970. */
  apply(webhook: { memberId: string; receivedAt: number }): Promise<void>;
  log: Log;
  metrics: Pick<CrmWebhookMetrics, 'webhooks'>;
}

export class WebhookProcessor {
  readonly #options: ProcessorOptions;

  constructor(options: ProcessorOptions) {
    this.#options = options;
  }

  /** Processes all that is due. Throws what the database does; what is left then is due again later. */
  async run(stopping?: AbortSignal): Promise<void> {
    while (!stopping?.aborted) {
      const leased = await this.#options.table.take();
      if (leased.length === 0) return;
      // Each is of another member. One that fails does not hold up the others.
      const results = await Promise.allSettled(leased.map((webhook) => this.#process(webhook)));
      const failed = results.find((result) => result.status === 'rejected');
      if (failed !== undefined) throw failed.reason as Error;
    }
  }

  async #process(webhook: LeasedWebhook): Promise<void> {
    const { table, apply, metrics } = this.#options;
    // Another process has it by now.
    if (now() >= webhook.deadline) return;
    try {
      await apply({ memberId: webhook.member_id, receivedAt: webhook.received_at.getTime() });
    } catch (error) {
      return this.#fail(webhook, error);
    }
    if (await table.finish(webhook)) metrics.webhooks.inc({ result: 'processed' });
  }

  async #fail(webhook: LeasedWebhook, err: unknown): Promise<void> {
    const { table, log, metrics } = this.#options;
    const { webhook_id, attempts } = webhook;
    const facts = { err, webhook_id, attempts };
    const name = err instanceof Error ? err.name : 'unknown';
    if (attempts >= maxAttempts) {
      await table.fail(webhook, name, undefined);
      metrics.webhooks.inc({ result: 'dead' });
      log.error(facts, "couldn't process a webhook, which is given up; see handoff webhooks list");
      return;
    }
    const seconds = pauseAfter(attempts, waits);
    await table.fail(webhook, name, seconds);
    metrics.webhooks.inc({ result: 'failed' });
    log.warn({ ...facts, seconds }, "couldn't process a webhook; will try again");
  }
}
