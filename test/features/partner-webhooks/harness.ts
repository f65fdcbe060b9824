import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { addEvents, type NewEvent } from '../../../src/features/events/event-log.ts';
import type {
  EndpointAdministration,
  WantedEndpoint,
} from '../../../src/features/partner-webhooks/administration.ts';
import { partnerWebhookMetrics } from '../../../src/features/partner-webhooks/metrics.ts';
import {
  createWebhookEndpoints,
  type WebhookEndpoints,
} from '../../../src/features/partner-webhooks/webhook-endpoints.ts';
import type { Consumer } from '../../../src/identity/consumers/consumer.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';
import { databaseKinds } from '../../support/databases.ts';
import { eventually } from '../../support/eventually.ts';
import { type LogLine, recordLog } from '../../support/log.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.ts';

/** One or several replicas of the deliveries, with consumers and a receiver. */
export interface Harness {
  replicas: WebhookEndpoints[];
  administration: EndpointAdministration;
  consumers: Map<string, Consumer>;
  /** Ids of consumers that are there, but not loaded. */
  notLoaded: Set<string>;
  /** Awaited by each look for a consumer that is not loaded. */
  looking: { until: Promise<void> };
  /** Runs once, after a replica has looked up what there is to do, and before it does it. */
  afterLook(run: () => Promise<void>): void;
  receiver: WebhookReceiver;
  logLines: LogLine[];
  metrics: ReturnType<typeof createMetrics>;
  addEvents(...events: Partial<NewEvent>[]): Promise<void>;
  /** Makes an endpoint with a path of its own; returns its id. */
  newEndpoint(path: string, more?: Partial<WantedEndpoint>, consumer?: Consumer): Promise<string>;
  execute<Row = Record<string, unknown>>(text: string): Promise<Row[]>;
  /** Resolves when the query finds a row. */
  until(query: string): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

export function consumerOf(id: string, ...permissions: Consumer['permissions']): Consumer {
  const createdAt = '2027-01-01T00:00:00.000Z';
  const times = { createdAt, updatedAt: createdAt, rotatedAt: null };
  return { id, name: id, permissions, ...times, certificateFingerprints: [], credentials: [] };
}

export const reader = consumerOf(
  'con_reader',
  { resource: 'quotes', actions: ['read'] },
  { resource: 'webhooks', actions: ['read', 'write', 'delete'] },
);

export async function startHarness(
  kind: string,
  { replicas: count = 1, timeoutMs = 15_000 } = {},
): Promise<Harness | undefined> {
  const opened = await databaseKinds[kind]?.(count);
  if (!opened) return undefined;
  const dir = await mkdtemp(join(tmpdir(), 'handoff-endpoints-'));
  const secrets = createFileSecretsManager({ dir });
  const receiver = await startWebhookReceiver();
  const consumers = new Map([[reader.id, reader]]);
  const { log, lines: logLines } = recordLog();
  const metrics = createMetrics(partnerWebhookMetrics);
  const notLoaded = new Set<string>();
  const looking = { until: Promise.resolve() };
  const onLook: (() => Promise<void>)[] = [];
  const owners = {
    catchUp: () => onLook.shift()?.(),
    find: (id: string) => (notLoaded.has(id) ? undefined : consumers.get(id)),
    exists: async (id: string) => {
      await looking.until;
      return consumers.has(id);
    },
  };
  const [database] = opened.replicas;
  const replicas = opened.replicas.map((replica) =>
    createWebhookEndpoints({
      ...{ database: replica, secrets, owners, log, metrics, timeoutMs },
      addressRules: { privateNetworks: ['127.0.0.0/8'], httpToLoopback: true },
      retentionDays: 30,
      userAgent: 'test',
    }),
  );
  for (const replica of replicas) replica.start();
  const { administration } = replicas[0] as WebhookEndpoints;
  // As jobs do: beside thousands of deliveries it may take longer than a request waits.
  const execute = async <Row>(text: string) => (await sql.raw<Row>(text).execute(database.bulk)).rows;
  return {
    ...{ replicas, administration, consumers, notLoaded, looking, receiver, logLines, metrics, execute },
    afterLook: (run) => void onLook.push(run),
    addEvents: (...events) => addEvents(database.bulk, events.map(eventOf)),
    newEndpoint: async (path, more = {}, consumer = reader) => {
      consumers.set(consumer.id, consumer);
      const wanted = { url: `${receiver.url}${path}`, ...more };
      // The jobs of the test before may have kept the database busy for longer than a request waits.
      const { endpoint } = await eventually(() => administration.create(consumer, wanted));
      return endpoint.id;
    },
    until: async (query) =>
      eventually(async () => {
        const [row] = await execute<Record<string, unknown>>(query);
        assert.ok(row, query);
        return row;
      }),
    stop: async () => {
      for (const replica of replicas) await replica.stop();
      receiver.stop();
      await secrets.close();
      await opened.stop();
      await rm(dir, { recursive: true, maxRetries: 5 });
    },
  };
}

let records = 0;

function eventOf(more: Partial<NewEvent>): NewEvent {
  const resource = { type: 'quote', id: `record-${++records}` };
  const data = JSON.stringify({ id: (more.resource ?? resource).id });
  const occurredAt = '2027-03-02T16:05:12.000Z';
  return { type: 'quote.updated', resource, occurredAt, data, permission: 'quotes', ...more };
}
