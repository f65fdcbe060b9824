import type { Command } from 'commander';
import { ClaimsTable } from '../api/idempotency/claims-table.ts';
import type { Eraser, Erasure, ErasureStores } from '../feature.ts';
import { features } from '../features.ts';
import { isUuid } from '../platform/base/text.ts';
import {
  addGroup,
  CommandFailed,
  exitBadInput,
  type LoadSettings,
  print,
  runCommand,
  withDatabase,
} from '../platform/command-line/command.ts';
import { connectRedis } from '../platform/command-line/stores.ts';

interface Erased {
  memberId: string;
  erasures: Erasure[];
  failed: { part: string; message: string }[];
  failedFields: Record<string, unknown>;
}

const answersEraser: Eraser = {
  part: 'stored_answers',
  async erase(memberId, { database, settings }) {
    const count = await new ClaimsTable(database, settings.idempotencyRetentionHours).eraseMember(memberId);
    return { label: 'stored answers', count, fields: { stored_answers: count } };
  },
};

/**
 * Adds `members forget EXTERNAL_ID`, which works on the database and Redis beside a running service; the embedded database
 * is its service's alone. What is no External ID ends the process with code 2, a part that failed or something that is
 * still needed with code 1.
 */
export function registerMemberCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'members',
    alias: 'member',
    heading: 'erasure',
    description: 'members whose data the gateway stores',
  });
  group
    .command('forget')
    .description("erase a member's personal data from the gateway, but not from Salesforce")
    .argument('<external-id>', "the member's External ID, a UUID")
    .option('--json', 'print JSON')
    .action((externalId: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        if (!isUuid(externalId)) {
          const message = `${JSON.stringify(externalId)} isn't an External ID. Members have a UUID.`;
          throw new CommandFailed(message, exitBadInput);
        }
        const erased = await erase(load, externalId.toLowerCase());
        if (options.json) print(true, fieldsOf(erased), String);
        else print(undefined, erased, show);
        const isWhole = erased.erasures.every(({ left = [] }) => left.length === 0);
        if (!isWhole || erased.failed.length > 0) process.exitCode = 1;
      }),
    );
}

function erase(load: LoadSettings, memberId: string): Promise<Erased> {
  return withDatabase(load, 'handoff members', async (database, settings, opened) => {
    const { redisUrl } = settings;
    const stores: ErasureStores = {
      database,
      settings,
      openRedis: async () => (redisUrl === undefined ? undefined : connectRedis(redisUrl, opened)),
    };
    const erased: Erased = { memberId, erasures: [], failed: [], failedFields: {} };
    const erasers = [answersEraser, ...features.flatMap((feature) => feature.erasers ?? [])];
    for (const eraser of erasers) {
      try {
        erased.erasures.push(await eraser.erase(memberId, stores));
      } catch (error) {
        erased.failed.push({ part: eraser.part, message: (error as Error).message });
        Object.assign(erased.failedFields, eraser.otherFields, { [eraser.part]: null });
      }
    }
    return erased;
  });
}

/** The report for programs: a part that failed is null. */
function fieldsOf({ memberId, erasures, failed, failedFields }: Erased): object {
  return {
    member_id: memberId,
    ...failedFields,
    ...(Object.assign({}, ...erasures.map(({ fields }) => fields)) as object),
    failed,
  };
}

function show({ memberId, erasures, failed }: Erased): string {
  const isFound = erasures.some(({ count }) => count > 0);
  const counts = erasures.map(({ label, count }) => `${label.padEnd(16)}${count}`);
  return [
    ...(isFound
      ? [`Erased member ${memberId}'s data:`, ...counts]
      : [`Member ${memberId} has no data to erase.`]),
    ...erasures.flatMap(({ left = [] }) => left).map((sentence) => `Kept some data because ${sentence}`),
    ...failed.map(
      ({ part, message }) => `Couldn't erase ${part.replaceAll('_', ' ')}: ${message} Run this again.`,
    ),
    "Salesforce, the dining partner and the logs still have this member's data.",
  ].join('\n');
}
