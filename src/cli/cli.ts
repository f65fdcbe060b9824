import { Command } from 'commander';
import { loadSettings } from '../app/settings.ts';
import { features } from '../features.ts';
import { version } from '../platform/base/version.ts';
import { commandHeadings, configureExitCodes, configureHelp } from '../platform/command-line/command.ts';
import { openDatabase } from '../platform/command-line/stores.ts';
import type { Settings } from '../platform/settings/table.ts';
import { migrate } from '../platform/store/migrate.ts';
import { runDoctor } from './doctor.ts';
import { registerMemberCommands } from './member.ts';
import { registerOrgCommands } from './org/commands.ts';
import { serve } from './serve.ts';
import { registerTryCommand } from './try.ts';

export function createProgram(): Command {
  const program = new Command('handoff')
    .description(
      'Handoff Gateway hands search results off to Salesforce, and gives partners an API to its records.',
    )
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .option('--config <file>', 'settings file (default: handoff.config.json if it exists)')
    .commandsGroup(commandHeadings.service);
  configureHelp(program);
  configureExitCodes(program);
  const load = () => loadSettings(process.env, program.opts<{ config?: string }>().config);

  program
    .command('serve')
    .description('run the gateway')
    .action(() => serve(load()));
  registerTryCommand(program, load);
  program
    .command('migrate')
    .description('update the database schema to this version')
    .action(() => migrateDatabase(load()));
  program
    .command('doctor')
    .description('check the settings and all connected systems, and say what to fix')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: true }) => runDoctor(load, json));
  for (const { commands } of features) commands?.(program, load);
  registerMemberCommands(program, load);
  registerOrgCommands(program, load);
  return program;
}

export async function runCommandLine(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: 'user' });
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}

async function migrateDatabase(settings: Settings): Promise<void> {
  await using opened = new AsyncDisposableStack();
  await migrate(await openDatabase(settings, opened, 'handoff migrate'));
  process.stdout.write('The database is up to date.\n');
}
