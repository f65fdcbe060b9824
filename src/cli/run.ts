import { Command } from 'commander';
import { createConsumers } from '../consumers/create-consumers.ts';
import { createLog } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { openSecretsManager } from '../secrets/open-secrets-manager.ts';
import { loadSettings } from '../settings/settings.ts';
import { version } from '../version.ts';
import { connectRedis } from './connect-redis.ts';
import { registerConsumerCommands } from './consumer.ts';
import type { ConsumerContext } from './consumer-command.ts';
import { runDoctor } from './doctor.ts';
import { migrateDatabase } from './migrate.ts';
import { registerReservationCommands } from './reservation.ts';
import { serve } from './serve.ts';
import { registerWebhookCommands } from './webhook.ts';

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
  program
    .command('doctor')
    .description('check every configured part, and say what to mend')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: true }) => runDoctor(configFile(), json));
  registerConsumerCommands(program, async () => openConsumers(configFile()));
  registerReservationCommands(program, configFile);
  registerWebhookCommands(program, configFile);
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
  // Over Redis, running services are told of a change at once. They find out by themselves too.
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
