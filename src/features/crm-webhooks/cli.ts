import type { Command } from 'commander';
import {
  addList,
  CommandFailed,
  checkChoice,
  exitNotFound,
  type LoadSettings,
  listedAtOnce,
  print,
  runCommand,
  table,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { type EventState, eventStates, isMemberEvent } from './event.ts';
import { EventsTable, type ListedEvent } from './events-table.ts';

/**
 * Adds `webhook list` and `webhook replay ID`, which work on the database beside a running service; the embedded
 * database is its service's alone. Bad input ends the process with code 2, an unknown id with code 1.
 */
export function registerWebhookCommands(program: Command, load: LoadSettings): void {
  const group = program.command('webhook').description('webhooks that were received from the CRM');
  const find = async (options: { state?: string }) => {
    const state = checkChoice('--state', eventStates, options.state);
    return withEvents(load, (events) => events.list(state, listedAtOnce));
  };
  addList(group, 'received webhooks', find, showEvents).option(
    '--state <state>',
    `only those in this state: ${eventStates.join(', ')}`,
  );
  group
    .command('replay')
    .description('process a webhook again that was given up (dead) or already processed')
    .argument('<id>', 'webhook-id of the webhook')
    .option('--json', 'print JSON')
    .action((id: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        const state = await withEvents(load, (events) => replay(events, id));
        print(options.json, { webhook_id: id, state }, showReplay);
      }),
    );
}

/** The state that it has now. Throws `CommandFailed` where there is nothing to replay. */
async function replay(events: EventsTable, id: string): Promise<EventState> {
  const found = await events.replay(id);
  if (found === undefined) throw new CommandFailed(`There is no webhook ${id}.`, exitNotFound);
  if (isMemberEvent(found.type)) return 'received';
  throw new CommandFailed(
    `The webhook ${id} is of the type ${found.type}, and webhooks of that type are ignored: there is nothing to process.`,
    exitNotFound,
  );
}

function withEvents<T>(load: LoadSettings, work: (events: EventsTable) => Promise<T>): Promise<T> {
  return withDatabase(load, 'handoff webhook', (database) => work(new EventsTable(database)));
}

function showReplay({ webhook_id }: { webhook_id: string }): string {
  return `The webhook ${webhook_id} will be processed again: a running service does it within a minute.`;
}

/** Without the payload, which may hold personal data. */
function showEvents(events: ListedEvent[]): string {
  if (events.length === 0) return 'No webhooks found.';
  const header = ['state', 'received', 'type', 'member', 'attempts', 'last error', 'webhook-id'];
  const rows = events.map((event) => [
    event.came_late ? `${event.state}, late` : event.state,
    event.received_at.toISOString(),
    event.type,
    event.member_id ?? '-',
    String(event.attempts),
    event.last_error ?? '-',
    event.webhook_id,
  ]);
  return table([header, ...rows]);
}
