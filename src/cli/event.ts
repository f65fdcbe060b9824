import type { Command } from 'commander';
import { EventFeed, type ListedEvent } from '../changes/event-feed.ts';
import { eventTypes } from '../changes/event-log.ts';
import { type ConfigFile, checkChoice, print, runCommand, table, withDatabase } from './command.ts';

/** Events that one list shows at most. */
const listedAtOnce = 1000;

/**
 * Adds `event list`, which works on the database beside a running service; the embedded database is its service's alone.
 * Bad input ends the process with code 2.
 */
export function registerEventCommands(program: Command, configFile: ConfigFile): void {
  const group = program.command('event').description('events of the feed');
  group
    .command('list')
    .description(`list events, newest first, ${listedAtOnce} at most`)
    .option('--type <type>', 'only those of this type')
    .option('--resource <id>', 'only those of the resource with this id')
    .option('--json', 'print JSON')
    .action((options: { type?: string; resource?: string; json?: true }, command: Command) =>
      runCommand(command, async () => {
        const type = checkChoice('--type', eventTypes, options.type);
        const resourceId = options.resource?.toLowerCase();
        const found = await withDatabase(configFile, 'handoff event', (database) =>
          new EventFeed(database).latest({ type, resourceId, limit: listedAtOnce }),
        );
        print(options.json, found, show);
      }),
    );
}

/** Without the data, which may be personal. */
function show(events: ListedEvent[]): string {
  if (events.length === 0) return 'There are no such events.';
  const header = ['recorded', 'occurred', 'type', 'resource', 'made by', 'id'];
  const rows = events.map((event) => [
    event.recorded_at.toISOString(),
    event.occurred_at.toISOString(),
    event.type,
    event.resource_id,
    event.consumer_id ?? '-',
    event.id,
  ]);
  return table([header, ...rows]);
}
