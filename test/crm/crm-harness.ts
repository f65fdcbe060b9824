import assert from 'node:assert/strict';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import {
  type SalesforceSimulator,
  type SalesforceSimulatorOptions,
  startSalesforceSimulator,
} from '../../simulators/salesforce/simulator.ts';
import { type Crm, type CrmOptions, createCrm } from '../../src/crm/crm.ts';
import { type Call, startCall } from '../../src/platform/base/call.ts';
import { Problem, type ProblemCode, type ProblemFacts } from '../../src/platform/base/problem.ts';
import { createMemoryCache } from '../../src/platform/cache/memory.ts';
import type { SharedCache } from '../../src/platform/cache/shared-cache.ts';
import { createMetrics, type Metrics } from '../../src/platform/observability/metrics.ts';
import type { Secret, SecretsManager } from '../../src/platform/secrets/secrets-manager.ts';
import type { FieldValues, ListQuery } from '../../src/records/records.ts';
import { type LogLine, recordLog } from '../support/log.ts';
import { useStarted } from '../support/use-started.ts';

export const keys = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

export const keySecret = 'crm/dev/private-key';

/** One replica's connection to the simulated org. */
export interface Replica {
  crm: Crm;
  metrics: Metrics;
  lines: LogLine[];
}

/** A simulated org with one member, and replicas of the service's CRM side, which share a cache and secrets. */
export interface CrmHarness extends Replica {
  org: Org;
  memberId: string;
  cache: SharedCache;
  secrets: TestSecrets;
  /** One more replica; other settings, cache or secrets where given. */
  addReplica(changes?: ReplicaChanges): Replica;
  stop(): Promise<void>;
}

export type ReplicaChanges = Partial<Omit<CrmOptions, 'log' | 'metrics'>>;

export async function startCrmHarness(
  changes: ReplicaChanges = {},
  simulatorOptions: Partial<SalesforceSimulatorOptions> = {},
): Promise<CrmHarness> {
  const simulator = await startSalesforceSimulator({
    clientId: 'client-id',
    username: 'gateway@example.com',
    publicKey: keys.publicKey,
    seed: { members: 1 },
    ...simulatorOptions,
  });
  const cache = changes.cache ?? createMemoryCache();
  const secrets = new TestSecrets();
  secrets.put(keySecret, keys.privateKey);
  const replicas: Replica[] = [];
  const addReplica = (more: ReplicaChanges = {}) => {
    const replica = makeReplica(simulator.url, { cache, secrets, ...changes, ...more });
    replicas.push(replica);
    return replica;
  };
  return {
    ...addReplica(),
    org: new Org(simulator),
    memberId: simulator.memberIds(1)[0] as string,
    cache,
    secrets,
    addReplica,
    async stop() {
      // First the org, so that calls which a test left hanging end.
      await simulator.close();
      for (const { crm } of replicas) await crm.stop();
    },
  };
}

export function useCrmHarness(
  changes?: ReplicaChanges,
  simulatorOptions?: Partial<SalesforceSimulatorOptions>,
): CrmHarness {
  return useStarted(
    () => startCrmHarness(changes, simulatorOptions),
    (harness) => harness.stop(),
  );
}

function makeReplica(
  url: string,
  given: ReplicaChanges & { cache: SharedCache; secrets: SecretsManager },
): Replica {
  const { log, lines } = recordLog();
  const metrics = createMetrics();
  const crm = createCrm({
    environment: 'dev',
    loginUrl: url,
    audience: url,
    clientId: 'client-id',
    username: 'gateway@example.com',
    privateKeySecret: keySecret,
    apiVersion: '68.0',
    duplicateRules: 'obey',
    ownerVerifiedOnly: false,
    tokenLifetimeSeconds: 7200,
    timeoutMs: 10_000,
    maxConcurrency: 20,
    quotaReserve: 0,
    dailyCallBudget: undefined,
    maxWaitMs: 2000,
    spareLocks: { acquireLock: () => Promise.reject(new Error('there is no database')) },
    log,
    metrics,
    ...given,
  });
  return { crm, metrics, lines };
}

interface Counters {
  metered: number;
  rowsWritten: number;
  calls: Record<string, number>;
  tokensIssued: number;
  highestConcurrency: number;
}

/** The simulated org, steered and looked into over its control API. */
export class Org {
  readonly url: string;
  constructor(simulator: SalesforceSimulator) {
    this.url = simulator.url;
  }

  /** Arms a fault and returns its id. */
  async fault(effect: object, match: object = {}, times?: number): Promise<string> {
    const fault = times === undefined ? { effect, match } : { effect, match, times };
    return ((await this.#control('POST', 'faults', fault)) as { id: string }).id;
  }

  /** Replaces the org's triggers, validation rules and required fields. */
  async automate(automation: object): Promise<void> {
    await this.#control('PUT', 'automation', automation);
  }

  async heal(): Promise<void> {
    await this.#control('DELETE', 'faults');
  }

  async release(fault: string): Promise<void> {
    await this.#control('POST', `faults/${fault}/release`);
  }

  async struck(fault: string, count = 1): Promise<void> {
    await this.#control('GET', `faults/${fault}/await?count=${count}`);
  }

  async revokeTokens(): Promise<void> {
    await this.#control('POST', 'tokens/revoke');
  }

  async configure(settings: object): Promise<void> {
    await this.#control('PATCH', 'settings', settings);
  }

  /** Merges a change into the org's description. */
  async change(description: object): Promise<void> {
    await this.#control('PATCH', 'org', description);
  }

  async counters(): Promise<Counters> {
    return (await this.#control('GET', 'counters')) as Counters;
  }

  async resetCounters(): Promise<void> {
    await this.#control('POST', 'counters/reset');
  }

  async calls(operation: string): Promise<number> {
    return (await this.counters()).calls[operation] ?? 0;
  }

  async records(object: string): Promise<Record<string, unknown>[]> {
    return (await this.#control('GET', `records/${object}`)) as Record<string, unknown>[];
  }

  async clear(object: string): Promise<void> {
    await this.#control('DELETE', `records/${object}`);
  }

  /** Writes records as they are, system fields included. */
  async insert(object: string, records: object[]): Promise<string[]> {
    return ((await this.#control('POST', `records/${object}`, records)) as { ids: string[] }).ids;
  }

  async #control(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`${this.url}/simulator/${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}

/** Secrets in memory, with versions and watchers. */
export class TestSecrets implements SecretsManager {
  readonly kind = 'file';
  readonly #secrets = new Map<string, Secret>();
  readonly #watchers = new Set<() => void>();
  /** Thrown by every read while set. */
  failure: Error | undefined;
  reads = 0;

  put(name: string, value: string): void {
    this.#secrets.set(name, { value, version: randomUUID() });
    for (const changed of this.#watchers) changed();
  }

  async read(name: string): Promise<Secret | undefined> {
    this.reads += 1;
    if (this.failure !== undefined) throw this.failure;
    return this.#secrets.get(name);
  }

  watch(_folder: string, changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  async write(): Promise<string> {
    throw new Error('not needed here');
  }
  async delete(): Promise<void> {}
  async list(): Promise<string[]> {
    return [...this.#secrets.keys()];
  }
  async checkHealth(): Promise<void> {}
  async close(): Promise<void> {}
}

/** A page of any records, written as JSON, unless `query` says otherwise. */
export function aList(query: Partial<ListQuery> = {}): ListQuery {
  return { filters: {}, limit: 10, maxBytes: 4 * 1024 * 1024, represent: JSON.stringify, ...query };
}

export function aCall(budgetMs?: number): Call {
  return startCall('test', undefined, budgetMs);
}

/** A quote for the member; the other fields may be given. */
export function quoteFor(memberId: string, others: FieldValues = {}): FieldValues {
  return {
    trip_id: '4b3b12a2-51a6-4f0d-8c56-0a7d1b0b1f10',
    member_id: memberId,
    name: 'Hotel Astoria',
    source: 'hotels',
    details: '{"price":"12.50","nights":3}',
    ...others,
  };
}

/** Value of a counter or gauge, summed over its labels. */
export async function total(metrics: Metrics, name: string): Promise<number> {
  const metric = await metrics.registry.getSingleMetric(name)?.get();
  return (metric?.values ?? []).reduce((sum, { value }) => sum + value, 0);
}

/** For assert.rejects: a Problem with this code, and with these facts; its outcome is known unless they say so. */
export function hasCode(code: ProblemCode, facts: ProblemFacts = {}): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof Problem)) throw error;
    const { retryAfter, outcomeUnknown = false } = error.facts;
    const expected = { retryAfter, outcomeUnknown: false, ...facts };
    assert.deepEqual({ code: error.code, retryAfter, outcomeUnknown }, { code, ...expected });
    return true;
  };
}
