import { type Command, Help } from 'commander';
import { escapeLines } from '../base/text.ts';
import type { Settings } from '../settings/table.ts';
import type { Database } from '../store/database.ts';
import { checkMigrated, openDatabase, openDatabaseToRead } from './stores.ts';

/** The settings, once the command line is parsed. Throws `SettingsError`. */
export type LoadSettings = () => Settings;

export const exitNotFound = 1;
export const exitBadInput = 2;

export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Runs the work; `CommandFailed` ends the process with its message and exit code. */
export async function runCommand(command: Command, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    command.error(`error: ${error.message}`, { exitCode: error.exitCode });
  }
}

export async function withDatabase<T>(
  load: LoadSettings,
  purpose: string,
  work: (database: Database, settings: Settings, opened: AsyncDisposableStack) => Promise<T>,
): Promise<T> {
  await using opened = new AsyncDisposableStack();
  const settings = load();
  const database = await checkMigrated(await openDatabase(settings, opened, purpose));
  return await work(database, settings, opened);
}

export async function readDatabase<T>(
  load: LoadSettings,
  purpose: string,
  read: (database: Database) => Promise<T>,
): Promise<T> {
  await using opened = new AsyncDisposableStack();
  return await read(await checkMigrated(await openDatabaseToRead(load(), opened, purpose)));
}

/** The option's value, which must be one of `choices` where it is set. Throws `CommandFailed`. */
export function checkChoice<T extends string>(
  option: string,
  choices: readonly T[],
  text: string | undefined,
): T | undefined {
  const choice = choices.find((one) => one === text);
  if (text === undefined || choice !== undefined) return choice;
  throw new CommandFailed(
    `${option} ${JSON.stringify(text)} isn't one of ${choices.join(', ')}.`,
    exitBadInput,
  );
}

export const commandHeadings = {
  service: 'Run and check:',
  records: 'Hand-offs and records:',
  access: 'Access:',
  org: 'Salesforce org:',
  erasure: 'Personal data:',
};

/** Ends with `exitBadInput` for unknown commands and options, where Commander would end as for a failure of the service. */
export function configureExitCodes(program: Command): void {
  program.exitOverride(({ code, exitCode }) =>
    process.exit(code === 'commander.error' || exitCode === 0 ? exitCode : exitBadInput),
  );
}

export function configureHelp(program: Command): void {
  const base = new Help();
  const withoutAlias = (command: Command) => base.commandUsage(command).replaceAll(/(\w)\|[\w-]+/g, '$1');
  program.configureHelp({
    helpWidth: 120,
    commandUsage: withoutAlias,
    subcommandTerm: (command) =>
      [
        command.name(),
        ...command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`)),
      ].join(' '),
    visibleCommands: (command) => base.visibleCommands(command).filter((one) => one.name() !== 'help'),
  });
}

export function addGroup(
  program: Command,
  {
    name,
    alias,
    heading,
    description,
  }: { name: string; alias?: string; heading: keyof typeof commandHeadings; description: string },
): Command {
  const group = program.command(name).description(description).helpGroup(commandHeadings[heading]);
  if (alias !== undefined) group.alias(alias);
  return group;
}

export const listedAtOnce = 1000;

export function addList<Row>(
  group: Command,
  what: string,
  find: (options: Record<string, string>) => Promise<Row[]>,
  show: (found: Row[]) => string,
): Command {
  return group
    .command('list')
    .description(`list ${what}, newest first, at most ${listedAtOnce}`)
    .option('--json', 'print JSON')
    .action(({ json, ...options }: { json?: true }, command: Command) =>
      runCommand(command, async () => print(json, await find(options), show)),
    );
}

export interface IdCommand<Result> {
  name: string;
  description: string;
  id: readonly [argument: string, description: string];
  /** Throws `CommandFailed`. */
  run(id: string): Promise<Result>;
  show(result: Result): string;
}

export function addIdCommand<Result>(
  group: Command,
  { name, description, id: [argument, meaning], run, show }: IdCommand<Result>,
): void {
  group
    .command(name)
    .description(description)
    .argument(argument, meaning)
    .option('--json', 'print JSON')
    .action((id: string, { json }: { json?: true }, command: Command) =>
      runCommand(command, async () => print(json, await run(id), show)),
    );
}

export function print<T>(asJson: true | undefined, value: T, show: (value: T) => string): void {
  process.stdout.write(`${escapeLines(asJson ? JSON.stringify(value) : show(value))}\n`);
}

export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
  return rows.map((row) => line(row).join('  ').trimEnd()).join('\n');
}
