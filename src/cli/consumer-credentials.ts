import type { Command } from 'commander';
import { maxGraceWindowHours } from '../consumers/rotation.ts';
import { badInput, CommandFailed, checkId, type OpenContext, print, run } from './consumer-command.ts';
import { showRotation } from './consumer-output.ts';

/** Adds `consumer rotate ID` and `consumer revoke ID`. */
export function registerCredentialCommands(group: Command, openContext: OpenContext): void {
  registerRotate(group, openContext);
  registerRevoke(group, openContext);
}

function registerRotate(group: Command, openContext: OpenContext): void {
  group
    .command('rotate')
    .description('make a new pair; shows its API secret this one time')
    .argument('<id>', 'id of the consumer, con_...')
    .option(
      '--grace-window-hours <hours>',
      'how long the old pair stays valid; 0 cuts it at once (default: the setting graceWindowHours)',
    )
    .option('--json', 'print JSON')
    .action((id: string, options: { graceWindowHours?: string; json?: true }, command: Command) =>
      run(
        command,
        openContext,
        () => {
          checkId(id);
          return parseHours(options.graceWindowHours);
        },
        async ({ administration }, hours) => {
          print(options.json, await administration.rotate(id, hours), showRotation);
        },
      ),
    );
}

function registerRevoke(group: Command, openContext: OpenContext): void {
  group
    .command('revoke')
    .description('delete a consumer; all its pairs are refused from now on')
    .argument('<id>', 'id of the consumer, con_...')
    .option('--json', 'print JSON')
    .action((id: string, options: { json?: true }, command: Command) =>
      run(
        command,
        openContext,
        () => checkId(id),
        async ({ administration }) => {
          await administration.revoke(id);
          print(options.json, { id, revoked: true }, () => `The consumer ${id} is revoked.`);
        },
      ),
    );
}

function parseHours(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const hours = Number(text);
  if (text.trim() !== '' && hours >= 0 && hours <= maxGraceWindowHours) return hours;
  const rule = `a number of hours from 0 to ${maxGraceWindowHours}`;
  throw new CommandFailed(`--grace-window-hours ${JSON.stringify(text)} is not ${rule}.`, badInput);
}
