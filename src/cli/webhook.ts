import type { Command } from 'commander';
import { loadSettings } from '../settings/settings.ts';
import type { Database } from '../store/database.ts';
import { compareSchema } from '../store/migrate.ts';
import { type EventState, eventStates, isMemberEvent } from '../webhooks/event.ts';
import { EventTable, type ListedEvent } from '../webhooks/event-table.ts';
import { badInput, CommandFailed, notFound, print } from './consumer-command.ts';
import { openDatabase } from './open-database.ts';

/** Webhooks that one list shows at most. */
const listedAtOnce = 1000;

type ConfigFile = () => string | undefined;

/**
 * Adds `webhook list` and `webhook replay ID`, which work on the database beside a running service; the embedded
 * database is its service's alone. Bad input ends the process with code 2, an unknown id with code 1.
 */
export function registerWebhookCommands(program: Command, configFile: ConfigFile): void {
  const group = program.command('webhook').description('webhooks that the CRM has sent');
  group
    .command('list')
    .description(`list received webhooks, newest first, ${listedAtOnce} at most`)
    .option('--state <state>', `only those in this state: ${eventStates.join(', ')}`)
    .option('--json', 'print JSON')
    .action((options: { state?: string; json?: true }, command: Command) =>
      run(command, async () => {
        const state = checkState(options.state);
        await withTable(configFile, async (table) => {
          print(options.json, await table.list(state, listedAtOnce), showEvents);
        });
      }),
    );
  group
    .command('replay')
    .description('have a webhook processed anew that is dead, or was processed')
    .argument('<id>', 'its webhook-id')
    .option('--json', 'print JSON')
    .action((id: string, options: { json?: true }, command: Command) =>
      run(command, () =>
        withTable(configFile, async (table) => {
          print(options.json, { webhook_id: id, state: await replay(table, id) }, showReplay);
        }),
      ),
    );
}

/** The state that it has now. Throws `CommandFailed` where there is nothing to replay. */
async function replay(table: EventTable, id: string): Promise<EventState> {
  const found = await table.replay(id);
  if (found === undefined) throw new CommandFailed(`There is no webhook ${id}.`, notFound);
  if (isMemberEvent(found.type)) return 'received';
  throw new CommandFailed(
    `The webhook ${id} is of the type ${found.type}, which is ignored: there is nothing to process.`,
    notFound,
  );
}

async function run(command: Command, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    command.error(`error: ${error.message}`, { exitCode: error.exitCode });
  }
}

async function withTable(configFile: ConfigFile, work: (table: EventTable) => Promise<void>): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const settings = loadSettings(process.env, configFile());
  const database = await openDatabase(settings, opened, 'handoff webhook');
  await requireSchema(database);
  await work(new EventTable(database));
}

async function requireSchema(database: Database): Promise<void> {
  const { missing } = await compareSchema(database);
  if (missing > 0)
    throw new Error('The schema of the database is not up to date: run `handoff migrate`, or the service.');
}

function checkState(text: string | undefined): EventState | undefined {
  const state = eventStates.find((one) => one === text);
  if (text === undefined || state !== undefined) return state;
  throw new CommandFailed(
    `--state ${JSON.stringify(text)} is not one of ${eventStates.join(', ')}.`,
    badInput,
  );
}

function showReplay({ webhook_id }: { webhook_id: string }): string {
  return `The webhook ${webhook_id} is processed again, by a running service within a minute.`;
}

/** Without the payload, which may hold personal data. */
function showEvents(events: ListedEvent[]): string {
  if (events.length === 0) return 'There are no such webhooks.';
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
  const all = [header, ...rows];
  const widths = header.map((_, i) => Math.max(...all.map((row) => row[i]?.length ?? 0)));
  return all
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
