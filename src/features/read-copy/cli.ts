import type { Command } from 'commander';
import {
  addGroup,
  type LoadSettings,
  runCommand,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { dropCopy } from './copy.ts';

/**
 * Adds `copy rebuild`, which works on the database beside a running service; the embedded database is its service's alone.
 */
export function registerCopyCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'copy',
    heading: 'org',
    description: "the service's own copy of the org's records",
  });
  group
    .command('rebuild')
    .description('empty the copy; a running service fills it again')
    .action((_options: object, command: Command) =>
      runCommand(command, async () => {
        await withDatabase(load, 'handoff copy', (database) => dropCopy(database));
        process.stdout.write('The copy is empty. A running service with copy.enabled fills it again.\n');
      }),
    );
}
