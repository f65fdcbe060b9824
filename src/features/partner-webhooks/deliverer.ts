import { createHmac } from 'node:crypto';
import { createBatcher } from '../../platform/base/batching.ts';
import { modeOf } from '../../platform/base/call.ts';
import {
  clearTimeout,
  monotonicMs,
  randomFraction,
  setTimeout,
  sleep,
  wallMs,
} from '../../platform/base/chance.ts';
import { startPolling } from '../../platform/base/waiting.ts';
import { OutboundFailure, type OutboundHttp } from '../../platform/http/outbound.ts';
import type { Log } from '../../platform/observability/log.ts';
import { writeEvent } from '../events/event-feed.ts';
import { shownTo } from '../events/event-visibility.ts';
import {
  type DeliveryQueue,
  type DeliveryResult,
  type EndpointConsumers,
  type EndpointFault,
  type EndpointViewer,
  type LeasedDelivery,
  type SentEvent,
  slotsInAll,
} from './delivery-queue.ts';
import type { DeliveryAttempt, DisabledReason } from './endpoint.ts';
import type { EndpointSecrets } from './endpoint-secrets.ts';
import type { PartnerWebhookMetrics } from './metrics.ts';

/** Seconds from a failed attempt to the next one. */
const delays = [5, 60, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];

/**
 * Share of a delay by which it is shortened or lengthened at most, so that repeats do not come all at once. A fifth is
 * promised; the rest is for a machine that is busy.
 */
const jitter = 0.15;

const longestRetryAfter = 3600;

/**
 * Seconds until the next attempt after this many that failed; undefined where there is none. `retryAfter` is the header of
 * the last answer. `random` is from 0 to 1, `now` in milliseconds since 1970.
 */
export function delayAfter(
  failed: number,
  retryAfter: string | undefined,
  { random = randomFraction(), now = wallMs() } = {},
): number | undefined {
  const delay = delays[failed - 1];
  if (delay === undefined) return undefined;
  const usual = delay * (1 + jitter * (2 * random - 1));
  return Math.max(usual, Math.min(secondsOf(retryAfter, now), longestRetryAfter));
}

/** The header Retry-After as seconds from now: a number of them, or a date (RFC 9110 section 10.2.3). */
function secondsOf(header: string | undefined, now: number): number {
  if (header === undefined) return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const date = header.endsWith(' GMT') ? Date.parse(header) : Number.NaN;
  return Number.isNaN(date) ? 0 : (date - now) / 1000;
}

interface DelivererOptions {
  queue: DeliveryQueue;
  secrets: Pick<EndpointSecrets, 'of'>;
  http: Pick<OutboundHttp, 'post'>;
  loadConsumers(viewers: readonly EndpointViewer[]): Promise<EndpointConsumers>;
  /** Disables an endpoint; returns its consumer, undefined where it was not enabled, or has another URL. */
  disable(endpointId: string, reason: DisabledReason, url: string): Promise<string | undefined>;
  userAgent: string;
  log: Log;
  metrics: Pick<
    PartnerWebhookMetrics,
    'deliveries' | 'webhookEndpointsDisabled' | 'deliveriesPendingAge' | 'deliveriesOverdue'
  >;
}

/** Deliveries that one statement leases; their data may be 256 KiB each. */
const leasedAtOnce = 50;
/** How often each replica looks for events and deliveries, in milliseconds. */
const pollMs = 1000;
/** After a stop begins, deliveries under way are given up after this many milliseconds, and sent by another process. */
const maxWaitMs = 3000;
/** A delivery that cannot be signed waits this many seconds for the secrets manager. */
const postponedSeconds = 5;
const agesIntervalMs = 15_000;
const gatherMs = 10;

export function startDeliverer(options: DelivererOptions) {
  const deliverer = new RunningDeliverer(options);
  const polling = startPolling({
    what: 'deliveries',
    check: (stopping) => deliverer.run(stopping),
    log: options.log,
    pollMs,
  });
  deliverer.start(polling.wake);
  return {
    wake: (): void => polling.wake(),
    stop: async (): Promise<void> => {
      await polling.stop();
      await deliverer.finish();
    },
  };
}

export type Deliverer = ReturnType<typeof startDeliverer>;

class RunningDeliverer {
  readonly #options: DelivererOptions;
  readonly #underWay = new Set<Promise<void>>();
  readonly #taken = new Map<string, number>();
  /** Endpoints that are being disabled, each with its URL: ending what waits for one may take long. */
  readonly #disabling = new Map<string, Promise<void>>();
  readonly #givingUp = new AbortController();
  readonly #store: (result: DeliveryResult) => Promise<void>;
  #wake: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #ended: NodeJS.Timeout | undefined;
  #agesAt = Number.NEGATIVE_INFINITY;

  constructor(options: DelivererOptions) {
    this.#options = options;
    this.#store = createResultWriter({
      ...options,
      givingUp: this.#givingUp.signal,
      onFault: (fault) => this.#startDisabling(fault),
    });
  }

  start(wake: () => void): void {
    this.#wake = wake;
    wake();
  }

  /** Starts all that can be started now. Throws what the database does. */
  async run(stopping: AbortSignal): Promise<void> {
    const { queue, loadConsumers } = this.#options;
    for (let isDone = false; !isDone && !stopping.aborted; ) {
      const { viewers, lastEvent, hasEvents, hasDue, nextInSeconds } = await queue.pendingWork();
      this.#wakeIn(nextInSeconds);
      const consumers = await loadConsumers(viewers);
      const limit = Math.min(slotsInAll - this.#underWay.size, leasedAtOnce);
      const hasWork = viewers.length > 0 && (hasEvents || (hasDue && limit > 0));
      // Nothing is awaited in between: a process that stood still there would send to consumers that are no longer active.
      const { leased, hasMore } = hasWork
        ? await queue.take(consumers, { taken: this.#taken, limit, lastEvent })
        : { leased: [], hasMore: false };
      const visibility = new Map(consumers.visibility.map((one) => [one.viewer, one]));
      for (const delivery of leased) {
        const seen = visibility.get(delivery.viewer);
        this.#start(seen === undefined ? delivery : shownTo(seen, delivery));
      }
      await this.#showAges(consumers);
      isDone = !hasMore && leased.length < leasedAtOnce;
    }
  }

  async finish(): Promise<void> {
    clearTimeout(this.#timer);
    clearTimeout(this.#ended);
    const timer = setTimeout(() => this.#givingUp.abort(), maxWaitMs);
    await Promise.all(this.#underWay);
    await Promise.all(this.#disabling.values());
    clearTimeout(timer);
  }

  #wakeIn(seconds: number | null): void {
    clearTimeout(this.#timer);
    if (seconds === null || seconds * 1000 > pollMs) return;
    this.#timer = setTimeout(() => this.#wake(), seconds * 1000 + 5).unref();
  }

  async #showAges(consumers: EndpointConsumers): Promise<void> {
    const { queue, metrics } = this.#options;
    const now = monotonicMs();
    if (now - this.#agesAt < agesIntervalMs) return;
    this.#agesAt = now;
    const { pending, overdue } = await queue.ages(consumers);
    metrics.deliveriesPendingAge.set(pending);
    metrics.deliveriesOverdue.set(overdue);
  }

  #start(leased: LeasedDelivery): void {
    const { owner } = leased;
    this.#count(owner, 1);
    const work = this.#deliver(messageOf(leased)).finally(() => {
      this.#underWay.delete(work);
      this.#count(owner, -1);
      // Wakes once for deliveries that end at about the same time.
      this.#ended ??= setTimeout(() => {
        this.#ended = undefined;
        this.#wake();
      }, gatherMs).unref();
    });
    this.#underWay.add(work);
  }

  #count(consumerId: string, change: number): void {
    const count = (this.#taken.get(consumerId) ?? 0) + change;
    if (count > 0) this.#taken.set(consumerId, count);
    else this.#taken.delete(consumerId);
  }

  /** Never fails. */
  async #deliver(delivery: Message): Promise<void> {
    const { metrics } = this.#options;
    const done = delivery.allowed ? await this.#attempt(delivery) : droppedResult();
    const isLast = done.outcome === 'failed' && done.next_in === null;
    metrics.deliveries.inc({ result: isLast ? 'given_up' : done.outcome });
    await this.#store({ id: delivery.id, fence: delivery.fence, url: delivery.url, ...done });
  }

  async #attempt(delivery: Message): Promise<Done> {
    const { http, secrets, userAgent, log } = this.#options;
    const { id, event_id, endpoint_id, secret_version, url, body, deadline } = delivery;
    const started = wallMs();
    try {
      const signing = await secrets.of(endpoint_id, secret_version);
      // The consumer was never shown a secret and has to rotate it.
      if (signing.length === 0) return doneBy(delivery, started, { status: null, error: 'no_secret' });
      const headers = {
        ...signatureHeaders(event_id, body, signing, wallMs()),
        'content-type': 'application/json',
        'user-agent': userAgent,
      };
      const answer = await http.post({ url, headers, body, deadline, signal: this.#givingUp.signal });
      return doneBy(delivery, started, answer);
    } catch (err) {
      if (err instanceof OutboundFailure) return doneBy(delivery, started, { status: null, error: err.kind });
      const isStopping = this.#givingUp.signal.aborted;
      if (!isStopping) log.warn({ err, delivery_id: id }, "couldn't try a delivery; will try again");
      return { outcome: 'postponed', attempt: null, next_in: isStopping ? 0 : postponedSeconds };
    }
  }

  #startDisabling(fault: EndpointFault): void {
    const key = `${fault.id} ${fault.url}`;
    if (this.#disabling.has(key)) return;
    const work = this.#disable(fault).finally(() => this.#disabling.delete(key));
    this.#disabling.set(key, work);
  }

  async #disable({ id, url, reason }: EndpointFault): Promise<void> {
    const { disable, log, metrics } = this.#options;
    try {
      const owner = await disable(id, reason, url);
      if (owner === undefined) return;
      // An endpoint that a partner tries out is no matter of operators.
      if (modeOf(owner) === 'live') metrics.webhookEndpointsDisabled.inc({ reason });
      log.warn({ endpoint_id: id, reason }, 'a webhook endpoint was disabled');
    } catch (err) {
      log.warn({ err, endpoint_id: id }, "couldn't disable a webhook endpoint; its next failure will");
    }
  }
}

/** A delivery to send. Only the bytes of its body are kept while the endpoint does not answer, not the text too. */
type Message = Omit<LeasedDelivery, 'data'> & { body: Buffer };

function messageOf(leased: LeasedDelivery): Message {
  const { data: _text, ...delivery } = leased;
  return { ...delivery, body: bodyOf(leased) };
}

type Done = Pick<DeliveryResult, 'outcome' | 'attempt' | 'next_in'>;

function droppedResult(): Done {
  const at = new Date(wallMs()).toISOString();
  return {
    outcome: 'dropped',
    attempt: { at, status: null, duration_ms: 0, error: 'not_permitted' },
    next_in: null,
  };
}

function doneBy(
  { tries }: Message,
  started: number,
  { status, error, retryAfter }: { status: number | null; error?: string; retryAfter?: string | undefined },
): Done {
  const isDelivered = status !== null && status >= 200 && status <= 299;
  const attempt: DeliveryAttempt = {
    at: new Date(started).toISOString(),
    status,
    duration_ms: Math.max(0, wallMs() - started),
    error: isDelivered ? null : (error ?? `http_${status}`),
  };
  if (isDelivered) return { outcome: 'delivered', attempt, next_in: null };
  return { outcome: 'failed', attempt, next_in: delayAfter(tries + 1, retryAfter) ?? null };
}

const storedAtOnce = 200;
const pauseMs = 1000;
/** The embedded database works on this thread: without a pause it would keep other answers from being read. */
const gatherResultsMs = 10;

interface ResultWriterOptions {
  queue: Pick<DeliveryQueue, 'finish'>;
  onFault(fault: EndpointFault): void;
  /** Aborted when results that cannot be stored are to be given up: their deliveries are sent again. */
  givingUp: AbortSignal;
  log: Log;
}

/**
 * Stores results, those that come meanwhile together; a result that cannot be stored is kept and tried again. Resolves when
 * the result is stored, or given up.
 */
function createResultWriter(options: ResultWriterOptions): (result: DeliveryResult) => Promise<void> {
  return createBatcher({
    execute: async (results: DeliveryResult[]) => {
      for (const fault of await write(results, options)) options.onFault(fault);
      return results.map(() => undefined);
    },
    inFlight: 1,
    batchSize: storedAtOnce,
    gatherMs: gatherResultsMs,
    identity: ({ id }) => id,
    isShared: () => true,
    isHung: () => false,
  });
}

async function write(
  results: DeliveryResult[],
  { queue, givingUp, log }: ResultWriterOptions,
): Promise<EndpointFault[]> {
  for (let tries = 1; ; tries++) {
    try {
      return await queue.finish(results);
    } catch (err) {
      // Once, not every second while the database is unavailable.
      if (tries === 1) log.warn({ err }, "couldn't store results of deliveries; keeping them");
      if (givingUp.aborted) return [];
      await sleep(pauseMs, { signal: givingUp }).catch(() => undefined);
    }
  }
}

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
