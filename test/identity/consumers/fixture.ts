import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConsumers } from '../../../src/identity/consumers/consumers.ts';
import { guardAgainstLoss } from '../../../src/identity/consumers/loss-guard.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';
import type { SecretsManager } from '../../../src/platform/secrets/secrets-manager.ts';
import { listOf, resourcesOf } from '../../../src/records/mapping.ts';
import { fieldNamesOf } from '../../../src/records/shown-fields.ts';
import { recordLog } from '../../support/log.ts';

const fieldNames = fieldNamesOf(() => listOf(resourcesOf()));

/** A clock that stands still unless it is moved. */
export function createTestClock(now = Date.parse('2026-01-01T00:00:00.000Z')) {
  const clock = () => now;
  return Object.assign(clock, {
    advance: (ms: number) => {
      now += ms;
    },
  });
}

/** A file secrets manager in a folder of its own whose reads are counted and can be made to fail. */
export async function createTestSecrets() {
  const folder = await mkdtemp(join(tmpdir(), 'handoff-consumers-'));
  const dir = join(folder, 'secrets');
  const files = createFileSecretsManager({ dir });
  const reads: string[] = [];
  let fault: Error | undefined;
  const secrets: SecretsManager = {
    ...files,
    read: async (name) => {
      reads.push(name);
      if (fault !== undefined) throw fault;
      return files.read(name);
    },
    list: async (name) => {
      if (fault !== undefined) throw fault;
      return files.list(name);
    },
  };
  return {
    secrets,
    folder,
    dir,
    reads,
    failWith: (error: Error | undefined) => {
      fault = error;
    },
    remove: async () => {
      await files.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Consumers over that secrets manager, with a clock in hand and a log that keeps its lines. */
export function createTestConsumers(secrets: SecretsManager, refreshSeconds = 3600) {
  const clock = createTestClock(Date.now());
  const metrics = createMetrics();
  const { log, lines } = recordLog();
  const consumers = createConsumers({
    secrets: guardAgainstLoss(secrets),
    log,
    metrics,
    refreshSeconds,
    fieldNames,
    clock,
  });
  return { consumers, clock, metrics, log, lines };
}

export const readQuotes = [{ resource: 'quotes', actions: ['read'] }];
