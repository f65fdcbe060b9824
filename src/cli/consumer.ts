import type { Command } from 'commander';
import { permissionActions, permissionResources } from '../consumers/consumer.ts';
import type { NewConsumer } from '../consumers/consumer-store.ts';
import { viewOfConsumer } from '../consumers/consumer-view.ts';
import { checkConsumerName, checkPermissions, type RequestedPermission } from '../consumers/permissions.ts';
import {
  badInput,
  CommandFailed,
  checkId,
  notFound,
  type OpenContext,
  print,
  run,
} from './consumer-command.ts';
import { registerCredentialCommands } from './consumer-credentials.ts';
import { showConsumer, showConsumers, showCreated } from './consumer-output.ts';

/**
 * Adds `consumer create`, `list`, `show ID`, `rotate ID` and `revoke ID`. Bad input ends the process with code 2, an unknown
 * id with code 1; `SecretsUnavailable` and `KeyUnusable` are left to the caller.
 */
export function registerConsumerCommands(program: Command, openContext: OpenContext): void {
  const group = program.command('consumer').description('consumers of the API and their credentials');
  // Commander would end with code 1 for an unknown option, as for a failure of the service.
  group.exitOverride(({ code, exitCode }) =>
    process.exit(code === 'commander.error' || exitCode === 0 ? exitCode : badInput),
  );
  registerCreate(group, openContext);
  registerList(group, openContext);
  registerShow(group, openContext);
  registerCredentialCommands(group, openContext);
}

function registerCreate(group: Command, openContext: OpenContext): void {
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
      run(
        command,
        openContext,
        () => toNewConsumer(options),
        async ({ administration }, wanted) => {
          const created = await administration.create(wanted);
          const { consumer, apiKey, apiSecret } = created;
          const { id, name, permissions } = consumer;
          print(options.json, { id, name, apiKey, apiSecret, permissions }, showCreated);
        },
      ),
    );
}

function registerList(group: Command, openContext: OpenContext): void {
  group
    .command('list')
    .description('list all consumers, oldest first')
    .option('--json', 'print JSON')
    .action((options: { json?: true }, command: Command) =>
      run(
        command,
        openContext,
        () => undefined,
        async ({ store }) => {
          print(options.json, (await store.list()).map(viewOfConsumer), showConsumers);
        },
      ),
    );
}

function registerShow(group: Command, openContext: OpenContext): void {
  group
    .command('show')
    .description('show one consumer, without its secrets')
    .argument('<id>', 'id of the consumer, con_...')
    .option('--json', 'print JSON')
    .action((id: string, options: { json?: true }, command: Command) =>
      run(
        command,
        openContext,
        () => checkId(id),
        async ({ store }) => {
          const found = await store.find(id);
          if (found === undefined) throw new CommandFailed(`There is no consumer ${id}.`, notFound);
          print(options.json, viewOfConsumer(found.consumer), showConsumer);
        },
      ),
    );
}

function toNewConsumer(options: { name?: string; allow: string[] }): NewConsumer {
  if (options.name === undefined) throw new CommandFailed('--name is missing.', badInput);
  if (options.allow.length === 0) throw new CommandFailed(`--allow is missing; ${allowHint}`, badInput);
  return {
    name: checkConsumerName(options.name),
    permissions: checkPermissions(options.allow.map(parseAllow)),
  };
}

const allowHint = `it takes RESOURCE:ACTION,ACTION, e.g. --allow quotes:read,write, with the resources \
${permissionResources.join(', ')} and the actions ${permissionActions.join(', ')}.`;

function parseAllow(text: string): RequestedPermission {
  const [resource = '', actionList, ...rest] = text.split(':');
  const actions = actionList?.split(',') ?? [];
  const isKnown = (known: readonly string[], word: string) => known.includes(word);
  const isRight =
    isKnown(permissionResources, resource) && actions.every((action) => isKnown(permissionActions, action));
  if (!isRight || actions.length === 0 || rest.length > 0) {
    throw new CommandFailed(`--allow ${JSON.stringify(text)} is not understood; ${allowHint}`, badInput);
  }
  return { resource, actions };
}
