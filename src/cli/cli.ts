import { Command } from 'commander';
import { openConsumers, registerConsumerCommands } from '../features/consumer-admin/cli/consumer.ts';
import { registerWebhookCommands } from '../features/crm-webhooks/cli.ts';
import { registerEventCommands } from '../features/events/cli.ts';
import { registerHandoffCommands } from '../features/handoff/cli.ts';
import { registerDeliveryCommands } from '../features/partner-webhooks/cli.ts';
import { registerCopyCommands } from '../features/read-copy/cli.ts';
import { registerReservationCommands } from '../features/reservations/cli.ts';
import { version } from '../platform/base/version.ts';
import { openDatabase } from '../platform/command-line/stores.ts';
import { loadSettings } from '../platform/settings/settings.ts';
import { migrate } from '../platform/store/migrate.ts';
import { registerMemberCommands } from './member.ts';

/** Every command of the program. The two that need much of the service load it themselves. */
export function createProgram(): Command {
  const program = new Command('handoff')
    .description('Handoff Gateway: hands search results off to the CRM and serves its records to partners')
    .version(version)
    .option('--config <file>', 'configuration file (handoff.config.json if there is one)');
  const configFile = () => program.opts<{ config?: string }>().config;

  program
    .command('serve')
    .description('run the service')
    .action(async () => (await import('./serve.ts')).serve(configFile()));
  program
    .command('migrate')
    .description('bring the schema of the database up to date')
    .action(() => migrateDatabase(configFile()));
  program
    .command('doctor')
    .description('check every configured part, and say what to fix')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: true }) => (await import('./doctor.ts')).runDoctor(configFile(), json));
  registerConsumerCommands(program, (opened) => openConsumers(configFile(), opened));
  registerHandoffCommands(program, configFile);
  registerReservationCommands(program, configFile);
  registerWebhookCommands(program, configFile);
  registerCopyCommands(program, configFile);
  registerEventCommands(program, configFile);
  registerDeliveryCommands(program, configFile);
  registerMemberCommands(program, configFile);
  return program;
}

/** Runs the command line. A failure is one message on standard error, with an exit code that is not 0. */
export async function runCommandLine(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: 'user' });
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}

/** Applies the migrations that the database does not have; the service does the same when it starts. */
async function migrateDatabase(configFile: string | undefined): Promise<void> {
  const settings = loadSettings(process.env, configFile);
  await using opened = new AsyncDisposableStack();
  await migrate(await openDatabase(settings, opened, 'handoff migrate'));
  process.stdout.write('The schema of the database is up to date.\n');
}
