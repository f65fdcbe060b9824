import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import type { SharedCache } from '../cache/shared-cache.ts';
import { createConsumers } from '../consumers/create-consumers.ts';
import { createLog } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { openSecretsManager } from '../secrets/open-secrets-manager.ts';
import { loadSettings } from '../settings/settings.ts';
import { version } from '../version.ts';
import { registerConsumerCommands } from './consumer.ts';
import type { ConsumerContext } from './consumer-command.ts';
import { migrateDatabase } from './migrate.ts';
import { serve } from './serve.ts';

/** A Redis that takes longer is left out. */
const longestConnectMs = 2000;

/** Runs the command line; what goes wrong is said in one message on standard error, and the exit code is not 0. */
export async function runCommandLine(args: readonly string[]): Promise<void> {
  const program = new Command('handoff')
    .description('Handoff Gateway: hands search results off to the CRM and serves its records to partners')
    .version(version)
    .option('--config <file>', 'configuration file (handoff.config.json if there is one)');
  const configFile = () => program.opts<{ config?: string }>().config;

  program
    .command('serve')
    .description('run the service')
    .action(() => serve(configFile()));
  program
    .command('migrate')
    .description('bring the schema of the database up to date')
    .action(() => migrateDatabase(configFile()));
  registerConsumerCommands(program, async () => openConsumers(configFile()));
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}

/** Consumers straight from the secrets manager: these commands work beside a running service, and without one. */
async function openConsumers(configFile: string | undefined): Promise<ConsumerContext> {
  const settings = loadSettings(process.env, configFile);
  const { secretsManager: kind, secretsDir: dir } = settings;
  const secrets = await openSecretsManager({ kind, dir, env: process.env, log: createLog('silent') });
  const cache = settings.redisUrl === undefined ? undefined : await connectRedis(settings.redisUrl);
  const consumers = createConsumers({
    secrets,
    log: createLog('silent'),
    metrics: createMetrics(),
    refreshSeconds: settings.secretsRefreshSeconds,
    cache,
    graceWindowHours: settings.graceWindowHours,
  });
  const close = async () => {
    await cache?.close();
    await secrets.close();
  };
  return { consumers, close };
}

/** Over Redis, running services are told of a change at once. They find out by themselves too, so nothing depends on it. */
async function connectRedis(url: string): Promise<SharedCache> {
  const { createRedisCache } = await import('../cache/redis.ts');
  const cache = createRedisCache({ url, log: createLog('silent') });
  const isConnected = () =>
    cache.checkHealth().then(
      () => true,
      () => false,
    );
  const until = performance.now() + longestConnectMs;
  while (!(await isConnected()) && performance.now() < until) await sleep(20);
  return cache;
}
