import type { Command } from 'commander';
import { ClaimsTable } from '../api/idempotency/claims-table.ts';
import { EventsTable } from '../features/crm-webhooks/events-table.ts';
import { EventFeed } from '../features/events/event-feed.ts';
import { ReaderTable } from '../features/events/reader-table.ts';
import { HandoffsTable } from '../features/handoff/handoffs-table.ts';
import { eraseCopiedMember } from '../features/read-copy/copy.ts';
import { forgetMember } from '../features/records/member-cache.ts';
import { type ErasedPlan, PlansTable } from '../features/reservations/plans-table.ts';
import { isUuid } from '../platform/base/uuid.ts';
import {
  CommandFailed,
  type ConfigFile,
  exitBadInput,
  print,
  runCommand,
  withDatabase,
} from '../platform/command-line/command.ts';
import { connectRedis } from '../platform/command-line/stores.ts';
import type { Database } from '../platform/store/database.ts';

/** The data of a member that was erased, and the reservations that were not. */
interface Forgotten {
  member_id: string;
  /** Places in Redis; null where none is configured, too. */
  cached_members: number | null;
  stored_answers: number | null;
  webhooks: number | null;
  events: number | null;
  /** Ids. */
  reservations: string[] | null;
  /** Ids of accepted hand-offs. */
  handoffs: string[] | null;
  /** Reservations that are not finished, and so still need their data. */
  not_erased: Pick<ErasedPlan, 'id' | 'status' | 'state'>[];
  /** Accepted hand-offs that wait to be delivered. */
  waiting_handoffs: string[];
  /** The parts above that are null because they failed; of each, some may be erased. */
  failed: { part: string; message: string }[];
}

/**
 * Adds `member forget EXTERNAL_ID`, which works on the database and Redis beside a running service; the embedded database
 * is its service's alone. What is no External ID ends the process with code 2, a part that failed or a reservation that
 * could not be erased with code 1.
 */
export function registerMemberCommands(program: Command, configFile: ConfigFile): void {
  const group = program.command('member').description("members' personal data in the gateway");
  group
    .command('forget')
    .description("erase one member's personal data from the database and Redis; the CRM is not touched")
    .argument('<external-id>', 'External ID of the member, a UUID')
    .option('--json', 'print JSON')
    .action((externalId: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        if (!isUuid(externalId)) {
          const message = `${JSON.stringify(externalId)} is not the External ID of a member, which is a UUID.`;
          throw new CommandFailed(message, exitBadInput);
        }
        const forgotten = await forget(configFile, externalId.toLowerCase());
        print(options.json, forgotten, show);
        const { not_erased, waiting_handoffs, failed } = forgotten;
        if (not_erased.length + waiting_handoffs.length + failed.length > 0) process.exitCode = 1;
      }),
    );
}

/** Executes each part, even if another fails; what is erased stays erased, and another run erases the rest. */
function forget(configFile: ConfigFile, memberId: string): Promise<Forgotten> {
  return withDatabase(configFile, 'handoff member', async (database, settings, opened) => {
    const { redisUrl, idempotencyRetentionHours } = settings;
    const failed: Forgotten['failed'] = [];
    const attempt = <T>(part: keyof Forgotten, work: () => Promise<T>) =>
      work().catch((error: Error) => {
        failed.push({ part, message: error.message });
        return null;
      });
    const cached = await attempt('cached_members', async () =>
      redisUrl === undefined ? null : forgetMember(await connectRedis(redisUrl, opened), memberId),
    );
    const plans = await attempt('reservations', () => new PlansTable(database).eraseMember(memberId));
    const handoffs = await attempt('handoffs', () => new HandoffsTable(database).eraseMember(memberId));
    const isErased = (one: { is_erased: boolean }) => one.is_erased;
    return {
      member_id: memberId,
      cached_members: cached,
      stored_answers: await attempt('stored_answers', () =>
        new ClaimsTable(database, idempotencyRetentionHours).eraseMember(memberId),
      ),
      webhooks: await attempt('webhooks', () => new EventsTable(database).eraseMember(memberId)),
      events: await attempt('events', () => eraseEvents(database, memberId)),
      reservations: plans && plans.filter(isErased).map(({ id }) => id),
      handoffs: handoffs && handoffs.filter(isErased).map(({ id }) => id),
      not_erased: (plans ?? [])
        .filter((plan) => !isErased(plan))
        .map(({ id, status, state }) => ({ id, status, state })),
      waiting_handoffs: (handoffs ?? []).filter((one) => !isErased(one)).map(({ id }) => id),
      failed,
    };
  });
}

/** What the reader knows of the member goes with them, and what the copy has. */
async function eraseEvents(database: Database, memberId: string): Promise<number> {
  await new ReaderTable(database).eraseMember(memberId);
  await eraseCopiedMember(database, memberId);
  return new EventFeed(database).eraseMember(memberId);
}

function show(forgotten: Forgotten): string {
  const {
    member_id: id,
    cached_members,
    stored_answers,
    webhooks,
    events,
    reservations,
    handoffs,
    not_erased,
    waiting_handoffs,
    failed,
  } = forgotten;
  const erased = [
    ['cached members', cached_members],
    ['stored answers', stored_answers],
    ['reservations', reservations && reservations.length],
    ['webhooks', webhooks],
    ['hand-offs', handoffs && handoffs.length],
    ['events', events],
  ] as const;
  const isFound = erased.some(([, count]) => count);
  const counts = erased.map(([what, count]) => `${what.padEnd(16)}${count ?? 0}`);
  return [
    ...(isFound
      ? [`Erased of the member ${id}:`, ...counts]
      : [`Nothing to erase was found of the member ${id}.`]),
    ...not_erased.map(
      (plan) =>
        `Not erased: the reservation ${plan.id} is still in progress (${plan.status}, ${plan.state}). Cancel it, or wait, and run this again.`,
    ),
    ...waiting_handoffs.map(
      (waiting) =>
        `Not erased: the hand-off ${waiting} waits to be delivered. Cancel it, or wait, and run this again.`,
    ),
    ...failed.map(({ part, message }) => `Failed: ${part.replace('_', ' ')}: ${message} Run this again.`),
    'The CRM, the dining partner and the logs are not touched.',
  ].join('\n');
}
