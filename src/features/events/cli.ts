import type { Command } from 'commander';
import {
  addGroup,
  addList,
  checkChoice,
  type LoadSettings,
  listedAtOnce,
  readDatabase,
  table,
} from '../../platform/command-line/command.ts';
import { EventFeed, type ListedEvent } from './event-feed.ts';
import { eventTypes } from './event-log.ts';

/**
 * Adds `events list`, which reads the database beside a running service.
 * Bad input ends the process with code 2.
 */
export function registerEventCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'events',
    alias: 'event',
    heading: 'records',
    description: 'what happened to records',
  });
  const find = async (options: { type?: string; resource?: string }) => {
    const type = checkChoice('--type', eventTypes, options.type);
    const resourceId = options.resource?.toLowerCase();
    return readDatabase(load, 'handoff event', (database) =>
      new EventFeed(database).latest({ type, resourceId, limit: listedAtOnce }),
    );
  };
  addList(group, 'events', find, show)
    .option('--type <type>', 'only events of this type, such as quote.created')
    .option('--resource <id>', 'only events of the record with this id');
}

/** Without the data, which may be personal. */
function show(events: ListedEvent[]): string {
  if (events.length === 0) return 'No events found.';
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
