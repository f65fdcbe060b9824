/**
 * How long a start takes to load many consumers from the file secrets manager:
 *
 *     node bench/loading.ts [consumers]
 *
 * Prints JSON. Writes the files first, which is not measured.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newConsumer } from '../src/identity/consumers/consumer-store.ts';
import { createConsumers } from '../src/identity/consumers/consumers.ts';
import { makeConsumerId, makeCredentialPair } from '../src/identity/consumers/credentials.ts';
import { consumerSecretName } from '../src/identity/consumers/stored-consumer.ts';
import { makeFolder } from '../src/platform/base/files.ts';
import { createLog } from '../src/platform/observability/log.ts';
import { createMetrics } from '../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../src/platform/secrets/file.ts';

export interface LoadingRow {
  consumers: number;
  'ms to load': number;
  'MiB of the process': number;
}

const [many = 100_000] = process.argv.slice(2).map(Number);
const counts = [10, 1000, many].filter((count) => count <= many);
/** Files written at once. */
const parallel = 64;

const dir = await mkdtemp(join(tmpdir(), 'handoff-loading-'));
try {
  await makeFolder(join(dir, 'consumers'));
  const rows: LoadingRow[] = [];
  let written = 0;
  for (const count of counts) {
    written += await writeConsumers(count - written);
    const secrets = createFileSecretsManager({ dir });
    const consumers = wire(secrets);
    const start = performance.now();
    await consumers.start();
    const ms = performance.now() - start;
    rows.push({
      consumers: count,
      'ms to load': ms,
      'MiB of the process': process.memoryUsage.rss() / 2 ** 20,
    });
    await consumers.stop();
    await secrets.close();
  }
  console.log(JSON.stringify(rows));
} finally {
  await rm(dir, { recursive: true });
}

function wire(secrets: ReturnType<typeof createFileSecretsManager>) {
  return createConsumers({ secrets, log: createLog('warn'), metrics: createMetrics(), refreshSeconds: 3600 });
}

async function writeConsumers(count: number): Promise<number> {
  const secrets = createFileSecretsManager({ dir });
  const { pepper } = await wire(secrets).keys.load();
  const one = async () => {
    const id = makeConsumerId();
    const permissions = [{ resource: 'quotes' as const, actions: ['read' as const] }];
    const consumer = newConsumer(
      { id, name: 'bench', permissions },
      makeCredentialPair(id),
      pepper,
      Date.now(),
    );
    await writeFile(join(dir, consumerSecretName(id)), JSON.stringify(consumer));
  };
  for (let done = 0; done < count; done += parallel) {
    await Promise.all(Array.from({ length: Math.min(parallel, count - done) }, one));
  }
  await secrets.close();
  return count;
}
