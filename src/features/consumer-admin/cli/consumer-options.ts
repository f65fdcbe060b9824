import type { Command } from 'commander';
import {
  type Consumer,
  fingerprintPattern,
  ownableResources,
  permissionActions,
  permissionResources,
  recordScopes,
} from '../../../identity/consumers/consumer.ts';
import {
  type ConsumerChange,
  checkChange,
  maxRateLimitPerMinute,
} from '../../../identity/consumers/consumer-change.ts';
import type { NewConsumer } from '../../../identity/consumers/consumer-store.ts';
import type { RequestedPermission } from '../../../identity/consumers/permissions.ts';
import { readMoment } from '../../../platform/base/moment.ts';
import { CommandFailed, exitBadInput } from '../../../platform/command-line/command.ts';

/** The options of `consumer create` and `consumer update` as they were typed. */
export interface ConsumerOptions {
  name?: string;
  allow: string[];
  deny: string[];
  disable?: true;
  enable?: true;
  validUntil?: string;
  rateLimit?: string;
  allowAddress?: string[];
  certificate?: string[];
  json?: true;
}

/** What was asked for: permissions to give and to take, and the other fields. */
export interface RequestedChange {
  allow: RequestedPermission[];
  deny: RequestedPermission[];
  fields: Omit<ConsumerChange, 'permissions'>;
}

const none = 'none';
const append = (text: string, before: string[] = []) => [...before, text];

/** Adds the options to a command. */
export function addConsumerOptions(command: Command): Command {
  const words = `resources: ${permissionResources.join(', ')}; actions: ${permissionActions.join(', ')}`;
  return command
    .option('--name <name>', 'name of the consumer, 1 to 100 characters')
    .option(
      '--allow <permission>',
      `all that it may do with a resource, e.g. quotes:read,write or quotes:read@own; may be repeated; ${words}`,
      append,
      [],
    )
    .option('--deny <permission>', 'actions to take away, e.g. quotes:write; may be repeated', append, [])
    .option('--disable', 'refuse its credentials until it is enabled again')
    .option('--enable', 'accept its credentials again')
    .option(
      '--valid-until <moment>',
      'from then on refuse its credentials, e.g. 2027-12-31T23:59:59Z, or none',
    )
    .option('--rate-limit <requests>', 'requests within 60 seconds, or none for the limit of the settings')
    .option(
      '--allow-address <address>',
      'address or CIDR block that it may call from, or none for any; may be repeated: the whole list',
      append,
    )
    .option(
      '--certificate <fingerprint>',
      'SHA-256 of a client certificate that it must present, or none; may be repeated: the whole list',
      append,
    )
    .option('--json', 'print JSON');
}

/** What the options say. Throws `CommandFailed`, `Problem` invalid_request. */
export function readChange(options: ConsumerOptions): RequestedChange {
  const { name, validUntil, rateLimit, allowAddress, certificate } = options;
  if (options.disable && options.enable) throw badInput('--disable and --enable exclude each other.');
  const isSwitched = options.disable !== undefined || options.enable !== undefined;
  const fields = {
    ...(name !== undefined && { name }),
    ...(isSwitched && { enabled: options.enable === true }),
    ...(validUntil !== undefined && { validUntil: readValidUntil(validUntil) }),
    ...(rateLimit !== undefined && { rateLimitPerMinute: readRateLimit(rateLimit) }),
    ...(allowAddress && { allowedAddresses: readList('--allow-address', allowAddress) }),
    ...(certificate && { certificateFingerprints: readFingerprints(certificate) }),
  };
  // Before anything is opened.
  checkChange(fields);
  return {
    allow: options.allow.map((text) => parsePermission('--allow', text)),
    deny: options.deny.map((text) => parsePermission('--deny', text)),
    fields,
  };
}

/** A new consumer, which needs a name and permissions. */
export function readNewConsumer(options: ConsumerOptions): NewConsumer {
  if (options.name === undefined) throw badInput('--name is missing.');
  if (options.allow.length === 0) throw badInput(`--allow is missing; ${allowHint}`);
  const change = readChange(options);
  const permissions = permissionsAfter([], change);
  checkChange({ permissions });
  return { ...change.fields, name: options.name, permissions };
}

/** The change to make to the consumer as it is. */
export function changeOf({ permissions }: Consumer, change: RequestedChange): ConsumerChange {
  const isSame = change.allow.length === 0 && change.deny.length === 0;
  return { ...change.fields, ...(!isSame && { permissions: permissionsAfter(permissions, change) }) };
}

function permissionsAfter(
  before: readonly RequestedPermission[],
  { allow, deny }: RequestedChange,
): RequestedPermission[] {
  const kept = before.filter(({ resource }) => allow.every((one) => one.resource !== resource));
  return [...kept, ...allow].flatMap((permission) => {
    const denied = deny
      .filter(({ resource }) => resource === permission.resource)
      .flatMap(({ actions }) => actions);
    const actions = permission.actions.filter((one) => !denied.includes(one));
    return actions.length === 0 ? [] : [{ ...permission, actions }];
  });
}

const allowHint = `it takes RESOURCE:ACTION,ACTION, e.g. --allow quotes:read,write, with the resources \
${permissionResources.join(', ')} and the actions ${permissionActions.join(', ')}; @own at the end is for \
records that the consumer made, on ${ownableResources.join(' and ')}.`;

const action = `(?:${permissionActions.join('|')})`;
const permissionPattern = new RegExp(
  `^(${permissionResources.join('|')}):(${action}(?:,${action})*)(?:@(${recordScopes.join('|')}))?$`,
);

function parsePermission(option: string, text: string): RequestedPermission {
  const [, resource = '', actions = '', records] = permissionPattern.exec(text) ?? [];
  const isRight = actions !== '' && (records !== 'own' || ownableResources.includes(resource));
  if (isRight) return { resource, actions: actions.split(','), ...(records !== undefined && { records }) };
  throw badInput(`${option} ${JSON.stringify(text)} is not understood; ${allowHint}`);
}

function readValidUntil(text: string): string | null {
  if (text === none) return null;
  if (readMoment(text) !== undefined) return text;
  throw badInput(
    `--valid-until ${JSON.stringify(text)} is not a moment such as 2027-12-31T23:59:59Z, nor none.`,
  );
}

function readRateLimit(text: string): number | null {
  if (text === none) return null;
  const limit = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= maxRateLimitPerMinute) return limit;
  throw badInput(
    `--rate-limit ${JSON.stringify(text)} is not a whole number from 1 to ${maxRateLimitPerMinute}, nor none.`,
  );
}

function readFingerprints(texts: readonly string[]): string[] {
  const list = readList('--certificate', texts);
  const wrong = list.find((text) => !new RegExp(fingerprintPattern).test(text));
  if (wrong === undefined) return list;
  throw badInput(
    `--certificate ${JSON.stringify(wrong)} is not the SHA-256 of a certificate in hex, nor none.`,
  );
}

function readList(option: string, texts: readonly string[]): string[] {
  if (!texts.includes(none)) return [...texts];
  if (texts.length > 1) throw badInput(`${option} none stands alone.`);
  return [];
}

function badInput(message: string): CommandFailed {
  return new CommandFailed(message, exitBadInput);
}
