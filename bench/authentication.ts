import { activeCredential } from '../src/consumers/consumer-store.ts';
import { createConsumers } from '../src/consumers/create-consumers.ts';
import { makeConsumerId, makeCredentialPair } from '../src/consumers/credentials.ts';
import { createLog } from '../src/observability/log.ts';
import { createMetrics } from '../src/observability/metrics.ts';
import type { SecretsManager } from '../src/secrets/secrets-manager.ts';

/** Prints how many microseconds one authentication takes with few and with many consumers loaded. */
const rounds = 100_000;

function emptySecrets(): SecretsManager {
  const nothing = async () => undefined;
  return {
    kind: 'file',
    read: nothing,
    write: async () => 'version',
    delete: nothing,
    list: async () => [],
    watch: () => () => undefined,
    checkHealth: nothing,
    close: nothing,
  };
}

async function fill(count: number) {
  const options = {
    secrets: emptySecrets(),
    log: createLog('silent'),
    metrics: createMetrics(),
    refreshSeconds: 3600,
  };
  const { directory, authenticate, keys } = createConsumers(options);
  const { pepper } = await keys.load();
  const at = new Date().toISOString();
  const pairs = Array.from({ length: count }, () => {
    const id = makeConsumerId();
    const pair = makeCredentialPair(id);
    const credentials = [activeCredential(pair, pepper, at)];
    const permissions = [{ resource: 'quotes' as const, actions: ['read' as const] }];
    const dates = { createdAt: at, updatedAt: at, rotatedAt: null };
    directory.put(
      { id, name: 'x', permissions, ...dates, certificateFingerprints: [], credentials },
      'version',
    );
    return pair;
  });
  return { authenticate, pairs };
}

async function measure(count: number): Promise<void> {
  const { authenticate, pairs } = await fill(count);
  const known = (i: number) => pairs[(i * 7919) % pairs.length];
  const unknown = Array.from({ length: 1000 }, () => ({
    ...makeCredentialPair(makeConsumerId()),
    apiKey: 'hgk_x',
  }));
  const cases = {
    accepted: (i: number) => known(i),
    'wrong secret': (i: number) => ({ apiKey: known(i)?.apiKey, apiSecret: known(i + 1)?.apiKey }),
    'unknown key': (i: number) => unknown[i % unknown.length],
  };
  for (const [name, presented] of Object.entries(cases)) {
    const work = () => {
      for (let i = 0; i < rounds; i++) {
        const { apiKey, apiSecret } = presented(i) ?? { apiKey: undefined, apiSecret: undefined };
        void authenticate({ apiKey, apiSecret });
      }
    };
    work();
    const start = performance.now();
    work();
    const microseconds = ((performance.now() - start) * 1000) / rounds;
    console.log(`${String(count).padStart(7)} consumers, ${name.padEnd(12)} ${microseconds.toFixed(2)} µs`);
  }
}

for (const count of [10, 100_000]) await measure(count);
