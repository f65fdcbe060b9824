import type { Command } from 'commander';
import { forgetPersonInAttempts } from '../../identity/audit/attempt-table.ts';
import {
  addGroup,
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

export function registerPeopleCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'people',
    alias: 'person',
    heading: 'erasure',
    description: 'people who have signed in',
  });
  group
    .command('forget')
    .description("end a person's sessions and erase the person from the access log")
    .argument('<email>', 'e-mail address, or the name that records have instead')
    .option('--json', 'print JSON')
    .action((email: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        if (!/\S/.test(email))
          throw new CommandFailed('Enter the e-mail address of the person.', exitBadInput);
        const forgotten = await withDatabase(load, 'handoff people', async (database) => ({
          sessions: await forgetSessionsOf(database, email),
          attempts: await forgetPersonInAttempts(database, email),
        }));
        print(options.json, forgotten, show);
      }),
    );
}

function show({ sessions, attempts }: Forgotten): string {
  return `Ended ${sessions} sessions, and erased the person from ${attempts} requests in the access log.`;
}
