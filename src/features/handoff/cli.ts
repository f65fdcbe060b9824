import type { Command } from 'commander';
import { isUuid } from '../../platform/base/text.ts';
import {
  addGroup,
  addIdCommand,
  addList,
  CommandFailed,
  checkChoice,
  exitBadInput,
  exitNotFound,
  type LoadSettings,
  listedAtOnce,
  readDatabase,
  table,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { type HandoffStatus, handoffStatuses, type StoredHandoff } from './accepted.ts';
import { HandoffsTable } from './handoffs-table.ts';

const purpose = 'handoff handoffs';

/**
 * Adds `handoffs list`, `retry` and `cancel` for hand-offs that were answered 202. They work on the database beside a
 * running service; the embedded database is its service's alone.
 */
export function registerHandoffCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'handoffs',
    alias: 'handoff',
    heading: 'records',
    description: 'hand-offs that wait for Salesforce or approval, or failed',
  });
  const find = async (options: { status?: string }) =>
    list(load, checkChoice('--status', handoffStatuses, options.status));
  addList(group, 'queued hand-offs', find, show).option(
    '--status <status>',
    `only hand-offs with this status: ${handoffStatuses.join(', ')}`,
  );
  registerChange(group, load, {
    name: 'retry',
    description: 'deliver a failed hand-off again',
    done: (id) => `A running gateway will deliver hand-off ${id} within seconds.`,
    change: async (handoffs, id) => (await handoffs.retry(id)) === 'waits',
  });
  registerChange(group, load, {
    name: 'cancel',
    description: 'cancel a hand-off that is waiting or has failed',
    done: (id) => `Cancelled hand-off ${id}.`,
    change: async (handoffs, id) =>
      (await handoffs.cancel(id)) || (await handoffs.find(id))?.status === 'cancelled',
  });
}

interface HandoffChange {
  name: string;
  description: string;
  done: (id: string) => string;
  /** False where its state does not allow it. */
  change: (handoffs: HandoffsTable, id: string) => Promise<boolean>;
}

function registerChange(
  group: Command,
  load: LoadSettings,
  { name, description, done, change }: HandoffChange,
) {
  addIdCommand(group, {
    name,
    description,
    id: ['<external-id>', "the hand-off's External ID, a UUID"],
    async run(externalId) {
      if (!isUuid(externalId))
        throw new CommandFailed(
          `${JSON.stringify(externalId)} isn't an External ID. Hand-offs have a UUID.`,
          exitBadInput,
        );
      const id = externalId.toLowerCase();
      const status = await withHandoffs(load, async (handoffs) => {
        if (await change(handoffs, id)) return (await handoffs.find(id))?.status;
        throw await whyNot(handoffs, id);
      });
      return { external_id: id, status };
    },
    show: ({ external_id }) => done(external_id),
  });
}

async function whyNot(handoffs: HandoffsTable, id: string): Promise<CommandFailed> {
  const found = await handoffs.find(id);
  const message = found
    ? `Hand-off ${id} is ${found.status}, so you can't do this.`
    : `There's no queued hand-off ${id}.`;
  return new CommandFailed(message, exitNotFound);
}

function withHandoffs<T>(load: LoadSettings, work: (handoffs: HandoffsTable) => Promise<T>): Promise<T> {
  return withDatabase(load, purpose, (database) => work(new HandoffsTable(database)));
}

async function list(load: LoadSettings, status: HandoffStatus | undefined) {
  const readable = { quote: 'all', booking: 'all' } as const;
  const found = await readDatabase(load, purpose, (database) =>
    new HandoffsTable(database).list({ readable, status, limit: listedAtOnce }),
  );
  return found.map(toListed);
}

/** As operators see it: without the CRM's id, which is for consoles. */
function toListed(handoff: StoredHandoff) {
  return {
    external_id: handoff.externalId,
    type: handoff.type,
    status: handoff.status,
    consumer_id: handoff.consumerId,
    trip_id: handoff.tripId,
    code: handoff.refusal?.code ?? null,
    detail: handoff.refusal?.detail ?? null,
    attempts: handoff.attempts,
    accepted_at: handoff.acceptedAt.toISOString(),
    completed_at: handoff.completedAt?.toISOString() ?? null,
  };
}

function show(listed: ReturnType<typeof toListed>[]): string {
  if (listed.length === 0) return 'No hand-offs found.';
  const header = ['status', 'accepted', 'type', 'attempts', 'problem', 'external id'];
  const rows = listed.map(({ status, accepted_at, type, attempts, code, external_id }) => [
    status,
    accepted_at,
    type,
    String(attempts),
    code ?? '-',
    external_id,
  ]);
  return table([header, ...rows]);
}
