import type { Command } from 'commander';
import { Problem } from '../base/problem.ts';
import {
  ownableResources,
  permissionActions,
  permissionResources,
  recordScopes,
} from '../consumers/consumer.ts';
import type { NewConsumer } from '../consumers/consumer-store.ts';
import { viewOfConsumer } from '../consumers/consumer-view.ts';
import { type Consumers, createConsumers } from '../consumers/consumers.ts';
import { isConsumerId } from '../consumers/credentials.ts';
import { checkConsumerName, checkPermissions, type RequestedPermission } from '../consumers/permissions.ts';
import { maxGraceWindowHours } from '../consumers/rotation.ts';
import { BrokenConsumer } from '../consumers/stored-consumer.ts';
import { createLog } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { openSecretsManager } from '../secrets/secrets.ts';
import { loadSettings } from '../settings/settings.ts';
import { CommandFailed, exitBadInput, exitNotFound, print, runCommand } from './command.ts';
import { showConsumer, showConsumers, showCreated, showRotation } from './consumer-output.ts';
import { connectRedis } from './stores.ts';

type OpenedConsumers = Pick<Consumers, 'store' | 'administration'>;

/** Opens what the commands work on; called only when a command runs. It is closed with `opened`. */
export type OpenConsumers = (opened: AsyncDisposableStack) => Promise<OpenedConsumers>;

/**
 * Adds `consumer create`, `list`, `show ID`, `rotate ID` and `revoke ID`. Bad input ends the process with code 2, an unknown
 * id with code 1; `SecretsUnavailable` and `KeyUnusable` are left to the caller.
 */
export function registerConsumerCommands(program: Command, open: OpenConsumers): void {
  const group = program.command('consumer').description('consumers of the API and their credentials');
  // Commander would end with code 1 for an unknown option, as for a failure of the service.
  group.exitOverride(({ code, exitCode }) =>
    process.exit(code === 'commander.error' || exitCode === 0 ? exitCode : exitBadInput),
  );
  registerCreate(group, open);
  registerList(group, open);
  registerShow(group, open);
  registerRotate(group, open);
  registerRevoke(group, open);
}

function registerCreate(group: Command, open: OpenConsumers): void {
  const allowed = `resources: ${permissionResources.join(', ')}; actions: ${permissionActions.join(', ')}`;
  group
    .command('create')
    .description('create a consumer; shows its API secret this one time')
    .option('--name <name>', 'name of the consumer, 1 to 100 characters')
    .option(
      '--allow <resource:actions>',
      `permission, e.g. quotes:read,write; may be repeated; ${allowed}`,
      (text: string, before: string[]) => [...before, text],
      [],
    )
    .option('--json', 'print JSON')
    .action((options: { name?: string; allow: string[]; json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => readNewConsumer(options),
        work: async ({ administration }, wanted) => {
          const { consumer, apiKey, apiSecret } = await administration.create(wanted);
          const { id, name, permissions } = consumer;
          print(options.json, { id, name, apiKey, apiSecret, permissions }, showCreated);
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
        work: async ({ store }) => {
          const consumers = await store.list();
          print(
            json,
            consumers.map((consumer) => viewOfConsumer(consumer, Date.now())),
            showConsumers,
          );
        },
      }),
    );
}

function registerShow(group: Command, open: OpenConsumers): void {
  commandOnOne(group, 'show', 'show one consumer, without its secrets').action(
    (id: string, { json }: { json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => checkId(id),
        work: async ({ store }) => {
          const found = await store.find(id);
          if (found === undefined) throw new CommandFailed(`There is no consumer ${id}.`, exitNotFound);
          print(json, viewOfConsumer(found.consumer, Date.now()), showConsumer);
        },
      }),
  );
}

function registerRotate(group: Command, open: OpenConsumers): void {
  commandOnOne(group, 'rotate', 'make a new pair; shows its API secret this one time')
    .option(
      '--grace-window-hours <hours>',
      'how long the old pair stays valid; 0 cuts it at once (default: the setting graceWindowHours)',
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
  commandOnOne(group, 'revoke', 'delete a consumer; all its pairs are refused from now on').action(
    (id: string, { json }: { json?: true }, command: Command) =>
      run(command, open, {
        checkInput: () => checkId(id),
        work: async ({ administration }) => {
          await administration.revoke(id);
          print(json, { id, revoked: true }, () => `The consumer ${id} is revoked.`);
        },
      }),
  );
}

function commandOnOne(group: Command, name: string, description: string): Command {
  return group
    .command(name)
    .description(description)
    .argument('<id>', 'id of the consumer, con_...')
    .option('--json', 'print JSON');
}

interface ConsumerWork<T> {
  /** Runs before anything is opened. */
  checkInput: () => T;
  work: (consumers: OpenedConsumers, input: T) => Promise<void>;
}

/** Runs a command on the consumers, and closes what it opened before the process may end. */
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

/** Consumers straight from the secrets manager: these commands work beside a running service, and without one. */
export async function openConsumers(
  configFile: string | undefined,
  opened: AsyncDisposableStack,
): Promise<Consumers> {
  const settings = loadSettings(process.env, configFile);
  const log = createLog('silent');
  const secrets = await openSecretsManager(settings, log);
  opened.defer(() => secrets.close());
  return createConsumers({
    secrets,
    log,
    metrics: createMetrics(),
    refreshSeconds: settings.secretsRefreshSeconds,
    // Running services are notified of a change through Redis at once. They also find it by themselves.
    cache: settings.redisUrl === undefined ? undefined : await connectRedis(settings.redisUrl, opened),
    graceWindowHours: settings.graceWindowHours,
  });
}

/** A refusal with its inner cause, which the API hides and the caller of a command needs; other errors as they are. */
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
  const rule = '"con_" and 16 letters or digits';
  throw new CommandFailed(
    `${JSON.stringify(id)} is not the id of a consumer, which is ${rule}.`,
    exitBadInput,
  );
}

function readNewConsumer(options: { name?: string; allow: string[] }): NewConsumer {
  if (options.name === undefined) throw new CommandFailed('--name is missing.', exitBadInput);
  if (options.allow.length === 0) throw new CommandFailed(`--allow is missing; ${allowHint}`, exitBadInput);
  return {
    name: checkConsumerName(options.name),
    permissions: checkPermissions(options.allow.map(parseAllow)),
  };
}

const allowHint = `it takes RESOURCE:ACTION,ACTION, e.g. --allow quotes:read,write, with the resources \
${permissionResources.join(', ')} and the actions ${permissionActions.join(', ')}; @own at the end is for \
records that the consumer made, on ${ownableResources.join(' and ')}.`;

const action = `(?:${permissionActions.join('|')})`;
const allowPattern = new RegExp(
  `^(${permissionResources.join('|')}):(${action}(?:,${action})*)(?:@(${recordScopes.join('|')}))?$`,
);

function parseAllow(text: string): RequestedPermission {
  const [, resource = '', actions = '', records] = allowPattern.exec(text) ?? [];
  const isRight = actions !== '' && (records !== 'own' || ownableResources.includes(resource));
  if (isRight) return { resource, actions: actions.split(','), ...(records !== undefined && { records }) };
  throw new CommandFailed(`--allow ${JSON.stringify(text)} is not understood; ${allowHint}`, exitBadInput);
}

function parseHours(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const hours = Number(text);
  if (text.trim() !== '' && hours >= 0 && hours <= maxGraceWindowHours) return hours;
  const rule = `a number of hours from 0 to ${maxGraceWindowHours}`;
  throw new CommandFailed(`--grace-window-hours ${JSON.stringify(text)} is not ${rule}.`, exitBadInput);
}
