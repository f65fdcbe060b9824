import type { Command } from 'commander';
import { forgetPersonInAttempts } from '../../identity/audit/attempt-table.ts';
import {
  CommandFailed,
  exitBadInput,
  type LoadSettings,
  print,
  runCommand,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { forgetSessionsOf } from './sessions-table.ts';

interface Forgotten {
  sessions: number;
  attempts: number;
}

/** Adds `person forget EMAIL`, which works on the database beside a running service. Bad input ends the process with code 2. */
export function registerPeopleCommands(program: Command, load: LoadSettings): void {
  const group = program.command('person').description('personal data of people who have signed in');
  group
    .command('forget')
    .description('end all sessions of a person, and erase the person from the log of access')
    .argument('<email>', 'e-mail address of the person, or the name that stands for it in records')
    .option('--json', 'print JSON')
    .action((email: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        if (!/\S/.test(email))
          throw new CommandFailed('Name the e-mail address of the person.', exitBadInput);
        const forgotten = await withDatabase(load, 'handoff person', async (database) => ({
          sessions: await forgetSessionsOf(database, email),
          attempts: await forgetPersonInAttempts(database, email),
        }));
        print(options.json, forgotten, show);
      }),
    );
}

function show({ sessions, attempts }: Forgotten): string {
  return `Ended sessions: ${sessions}. Requests that no longer name the person: ${attempts}.`;
}
