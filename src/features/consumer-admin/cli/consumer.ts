import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { type LastUses, readLastUses } from '../../../identity/audit/last-uses.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import { type ConsumerView, viewOfConsumer } from '../../../identity/consumers/consumer-view.ts';
import { type Consumers, createConsumers } from '../../../identity/consumers/consumers.ts';
import { isConsumerId } from '../../../identity/consumers/credentials.ts';
import { maxGraceWindowHours } from '../../../identity/consumers/rotation.ts';
import { BrokenConsumer } from '../../../identity/consumers/stored-consumer.ts';
import { modeOf } from '../../../platform/base/call.ts';
import { wallMs } from '../../../platform/base/chance.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { createAuthenticatedCache, loadCacheKeys } from '../../../platform/cache/authenticated.ts';
import type { SharedCache } from '../../../platform/cache/shared-cache.ts';
import {
  addGroup,
  CommandFailed,
  exitBadInput,
  exitNotFound,
  print,
  runCommand,
} from '../../../platform/command-line/command.ts';
import { connectRedis, openDatabaseToRead } from '../../../platform/command-line/stores.ts';
import { createLog } from '../../../platform/observability/log.ts';
import { createMetrics } from '../../../platform/observability/metrics.ts';
import { openSecretsManager } from '../../../platform/secrets/secrets.ts';
import type { SecretsManager } from '../../../platform/secrets/secrets-manager.ts';
import type { Settings } from '../../../platform/settings/table.ts';
import { listOf } from '../../../records/mapping.ts';
import { readResources } from '../../../records/mapping-file.ts';
import { fieldNamesOf } from '../../../records/shown-fields.ts';
import {
  addConsumerOptions,
  type ConsumerOptions,
  changeOf,
  readChange,
  readNewConsumer,
} from './consumer-options.ts';
import { showConsumer, showConsumers, showCreated, showRotation } from './consumer-output.ts';

interface OpenedConsumers extends Pick<Consumers, 'store' | 'administration'> {
  /** When keys were used last; undefined where the database cannot be read now. */
  lastUses?: (consumerIds: readonly string[]) => Promise<LastUses | undefined>;
}

type OpenConsumers = (opened: AsyncDisposableStack) => Promise<OpenedConsumers>;

/**
 * Adds `consumers create`, `list`, and, each with an id, `update`, `show`, `rotate` and `revoke`. Bad input ends the process
 * with code 2, an unknown id with code 1; `SecretsUnavailable` and `KeyUnusable` are left to the caller.
 */
export function registerConsumerCommands(program: Command, open: OpenConsumers): void {
  const group = addGroup(program, {
    name: 'consumers',
    alias: 'consumer',
    heading: 'access',
    description: 'programs that call the API, and their credentials',
  });
  registerCreate(group, open);
  registerUpdate(group, open);
  registerList(group, open);
  registerShow(group, open);
  registerRotate(group, open);
  registerRevoke(group, open);
}

function registerCreate(group: Command, open: OpenConsumers): void {
  const command = group
    .command('create')
    .description('create a consumer and show its API secret, this once only');
  command.option(
    '--test',
    'create a test consumer, whose requests never reach Salesforce or the dining partner',
  );
  addConsumerOptions(command).action((options: ConsumerOptions) =>
    run(command, open, {
      checkInput: () => readNewConsumer(options),
      work: async ({ administration }, wanted) => {
        const { consumer, apiKey, apiSecret } = await administration.create(wanted);
        const { id, name, permissions } = consumer;
        const mode = modeOf(id);
        const shown = { id, name, apiKey, apiSecret, permissions, ...(mode === 'test' && { mode }) };
        print(options.json, shown, showCreated);
      },
    }),
  );
}

function registerUpdate(group: Command, open: OpenConsumers): void {
  const command = group
    .command('update')
    .description("change a consumer; whatever you don't name stays as it is")
    .argument('<id>', "the consumer's id, con_...");
  addConsumerOptions(command).action((id: string, options: ConsumerOptions) =>
    run(command, open, {
      checkInput: () => {
        checkId(id);
        const named = Object.entries(options).filter(
          ([name, value]) => name !== 'json' && [value].flat().length > 0,
        );
        const isEmpty = named.length === 0;
        if (isEmpty) throw new CommandFailed('Nothing to change. Name at least one option.', exitBadInput);
        return readChange(options);
      },
      work: async (consumers, wanted) => {
        const changed = await consumers.administration.change(id, (consumer) => changeOf(consumer, wanted));
        await printOne(options.json, changed, consumers);
      },
    }),
  );
}

function registerList(group: Command, open: OpenConsumers): void {
  group
    .command('list')
    .description('list all consumers, oldest first')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => undefined,
        work: async (opened) => {
          const views = await viewsOf(await opened.store.list(), opened);
          print(json, views, showConsumers);
        },
      }),
    );
}

function registerShow(group: Command, open: OpenConsumers): void {
  commandOnOne(group, 'show', 'show one consumer, without its secrets').action(
    (id: string, { json }: { json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => checkId(id),
        work: async (opened) => {
          const found = await opened.store.find(id);
          if (found === undefined) throw new CommandFailed(`There's no consumer ${id}.`, exitNotFound);
          await printOne(json, found.consumer, opened);
        },
      }),
  );
}

function registerRotate(group: Command, open: OpenConsumers): void {
  commandOnOne(group, 'rotate', 'create a new API key and secret, and show the secret this once only')
    .option(
      '--grace-window-hours <hours>',
      'how many hours the old key keeps working; 0 turns it off right away (default: the setting graceWindowHours)',
    )
    .action((id: string, options: { graceWindowHours?: string; json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => {
          checkId(id);
          return parseHours(options.graceWindowHours);
        },
        work: async ({ administration }, hours) => {
          print(options.json, await administration.rotate(id, hours), showRotation);
        },
      }),
    );
}

function registerRevoke(group: Command, open: OpenConsumers): void {
  commandOnOne(group, 'revoke', 'delete a consumer, whose credentials stop working right away').action(
    (id: string, { json }: { json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => checkId(id),
        work: async ({ administration }) => {
          await administration.revoke(id);
          print(json, { id, revoked: true }, () => `Revoked consumer ${id}.`);
        },
      }),
  );
}

function commandOnOne(group: Command, name: string, description: string): Command {
  return group
    .command(name)
    .description(description)
    .argument('<id>', "the consumer's id, con_...")
    .option('--json', 'print JSON');
}

async function printOne(json: true | undefined, consumer: Consumer, opened: OpenedConsumers): Promise<void> {
  const [view] = await viewsOf([consumer], opened);
  print(json, view as ConsumerView, showConsumer);
}

async function viewsOf(
  consumers: readonly Consumer[],
  { lastUses }: OpenedConsumers,
): Promise<ConsumerView[]> {
  const uses = await lastUses?.(consumers.map(({ id }) => id));
  return consumers.map((consumer) => viewOfConsumer(consumer, wallMs(), uses));
}

interface ConsumerWork<T> {
  checkInput: () => T;
  work: (consumers: OpenedConsumers, input: T) => Promise<void>;
}

function run<T>(command: Command, open: OpenConsumers, { checkInput, work }: ConsumerWork<T>): Promise<void> {
  return runCommand(command, async () => {
    try {
      const input = checkInput();
      await using opened = new AsyncDisposableStack();
      await work(await open(opened), input);
    } catch (error) {
      throw failureOf(error);
    }
  });
}

export async function openConsumers(
  settings: Settings,
  opened: AsyncDisposableStack,
): Promise<OpenedConsumers> {
  const log = createLog('silent');
  const secrets = await openSecretsManager(settings, log);
  opened.defer(() => secrets.close());
  const consumers = createConsumers({
    secrets,
    log,
    metrics: createMetrics(),
    refreshSeconds: settings.secretsRefreshSeconds,
    // Running services are notified of a change through Redis at once. They also find it by themselves.
    cache: await openAnnouncements(settings, secrets, opened),
    environment: settings.environment,
    graceWindowHours: settings.graceWindowHours,
    fieldNames: fieldNamesOf(() => listOf(readResources(settings.crm.mappingFile))),
  });
  return { ...consumers, lastUses: (ids) => readLastUsesNow(settings, ids) };
}

/** The cache through which running services are notified; undefined without Redis. */
async function openAnnouncements(
  { redisUrl, environment }: Settings,
  secrets: SecretsManager,
  opened: AsyncDisposableStack,
): Promise<SharedCache | undefined> {
  if (redisUrl === undefined) return undefined;
  const cache = await connectRedis(redisUrl, opened);
  const keys = await loadCacheKeys(secrets, environment);
  return createAuthenticatedCache({ cache, keys, log: createLog('silent'), metrics: createMetrics() });
}

/** The embedded database belongs to the service while that runs; nobody else can read it then. */
async function readLastUsesNow(settings: Settings, ids: readonly string[]): Promise<LastUses | undefined> {
  if (!settings.databaseUrl && !existsSync(join(settings.dataDir, 'database'))) return undefined;
  try {
    await using opened = new AsyncDisposableStack();
    return await readLastUses(await openDatabaseToRead(settings, opened, 'handoff consumers'), ids);
  } catch {
    return undefined;
  }
}

function failureOf(error: unknown): unknown {
  if (!(error instanceof Problem || error instanceof BrokenConsumer)) return error;
  const { message, cause } = error;
  const isBadInput = error instanceof Problem && error.code === 'invalid_request';
  const text = cause instanceof Error ? `${message} ${cause.message}` : message;
  return new CommandFailed(text, isBadInput ? exitBadInput : exitNotFound);
}

/** Throws `CommandFailed` for text that is no id. */
function checkId(id: string): void {
  if (isConsumerId(id)) return;
  const rule = '"con_" followed by 16 letters or digits';
  throw new CommandFailed(`${JSON.stringify(id)} isn't a consumer id, which is ${rule}.`, exitBadInput);
}

function parseHours(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const hours = Number(text);
  if (text.trim() !== '' && hours >= 0 && hours <= maxGraceWindowHours) return hours;
  const rule = `a number of hours from 0 to ${maxGraceWindowHours}`;
  throw new CommandFailed(`--grace-window-hours ${JSON.stringify(text)} isn't ${rule}.`, exitBadInput);
}
