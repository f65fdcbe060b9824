import { Command } from 'commander';
import { createConsumers } from '../consumers/create-consumers.ts';
import { createLog } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { createFileSecretsManager } from '../secrets/file.ts';
import { loadSettings } from '../settings/settings.ts';
import { version } from '../version.ts';
import { type ConsumerContext, registerConsumerCommands } from './consumer.ts';
import { migrateDatabase } from './migrate.ts';
import { serve } from './serve.ts';

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
  const secrets = createFileSecretsManager({ dir: settings.secretsDir });
  const consumers = createConsumers({
    secrets,
    log: createLog('silent'),
    metrics: createMetrics(),
    refreshSeconds: settings.secretsRefreshSeconds,
  });
  return { consumers, close: () => secrets.close() };
}
