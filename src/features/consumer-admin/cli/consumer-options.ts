import { createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { TSchema } from 'typebox';
import { Value } from 'typebox/value';
import {
  type Consumer,
  ownableResources,
  permissionActions,
  permissionResources,
  recordScopes,
} from '../../../identity/consumers/consumer.ts';
import { type ConsumerChange, checkChange } from '../../../identity/consumers/consumer-change.ts';
import type { NewConsumer } from '../../../identity/consumers/consumer-store.ts';
import type { RequestedPermission } from '../../../identity/consumers/permissions.ts';
import type { PublicKey } from '../../../identity/consumers/public-keys.ts';
import { readMoment } from '../../../platform/base/moment.ts';
import { isVisible } from '../../../platform/base/text.ts';
import { CommandFailed, exitBadInput } from '../../../platform/command-line/command.ts';
import { requested } from '../routes/schemas.ts';

export interface ConsumerOptions {
  allow?: string[];
  deny?: string[];
  disable?: true;
  enable?: true;
  test?: true;
  json?: true;
  /** Options of `fieldRows`. */
  [name: string]: string | string[] | true | undefined;
}

interface RequestedChange {
  allow: RequestedPermission[];
  deny: RequestedPermission[];
  fields: Omit<ConsumerChange, 'permissions'>;
}

type FieldName = Exclude<keyof typeof requested, 'permissions' | 'enabled'>;

interface FieldRow {
  flags: string;
  description: string;
  /** Undefined for text that is no value. */
  read?: (text: string) => unknown;
  /** End of the sentence about a value that the field's schema refuses; absent: the domain's own check says more. */
  refusal?: string;
}

const none = 'none';
const replaced = '; repeatable, replaces the old list';
const append = (text: string, before: string[] = []) => [...before, text];

const fieldRows: Readonly<Record<FieldName, FieldRow>> = {
  name: { flags: '--name <name>', description: "the consumer's name, 1 to 100 characters" },
  validUntil: {
    flags: '--valid-until <moment>',
    description: 'reject its credentials from this time on, such as 2030-12-31T23:59:59Z, or none',
    read: (text) => (readMoment(text) === undefined ? undefined : text),
    refusal: "isn't a time. Use one such as 2030-12-31T23:59:59Z, or none.",
  },
  rateLimitPerMinute: {
    flags: '--rate-limit <requests>',
    description: 'requests allowed in 60 seconds, or none for the default limit',
    read: wholeNumber,
    refusal: numberRule(requested.rateLimitPerMinute),
  },
  allowedAddresses: {
    flags: '--allow-address <address>',
    description: `IP address or range (CIDR) that it may call from, or none for any${replaced}`,
  },
  crmShare: {
    flags: '--crm-share <percent>',
    description: 'percentage of Salesforce calls reserved for it when calls run short, or none',
    read: wholeNumber,
    refusal: numberRule(requested.crmShare),
  },
  certificateFingerprints: {
    flags: '--certificate <fingerprint>',
    description: `SHA-256 of a client certificate that it must use, or none${replaced}`,
    refusal: "isn't the SHA-256 of a certificate. Use 64 hex digits, or none.",
  },
  certificateNames: {
    flags: '--certificate-name <name>',
    description: `DNS name, URI or e-mail address in the client certificate that it must use, or none${replaced}`,
  },
  allowance: {
    flags: '--allowance <requests>',
    description: 'requests allowed each day or month (UTC), such as 10000/day, or none',
    read: readAllowance,
    refusal: "isn't valid. Use a number of requests such as 10000/day or 200000/month, or none.",
  },
  people: {
    flags: '--people <claim=value>',
    description: `ID token claim of people who can act as it in the console, such as groups=travel-desk, or none${replaced}`,
    read: readPersonClaim,
    refusal: "isn't a claim with a value. Use one such as groups=travel-desk, or none.",
  },
  publicKeys: {
    flags: '--public-key <file>',
    description: `file with the public key (PEM or JWK) for its signed token requests, or none${replaced}`,
    read: readPublicKey,
  },
};

export function addConsumerOptions(command: Command): Command {
  const words = `resources: ${permissionResources.join(', ')}; actions: ${permissionActions.join(', ')}`;
  const { name, ...others } = fieldRows;
  command
    .option(name.flags, name.description)
    .option(
      '--allow <permission>',
      `everything it may do with a resource, such as quotes:read,write, quotes:read@own, \
quotes:read[name,status] or quotes:read,write+approval; repeatable; ${words}`,
      append,
    )
    .option('--deny <permission>', 'actions to take away, such as quotes:write; repeatable', append)
    .option('--disable', 'reject its credentials until you enable it again')
    .option('--enable', 'accept its credentials again');
  for (const [field, { flags, description }] of Object.entries(others)) {
    const option = new Option(flags, description);
    command.addOption(itemOf(field as FieldName) === undefined ? option : option.argParser(append));
  }
  return command.option('--json', 'print JSON');
}

/** Throws `CommandFailed`, `Problem` invalid_request. */
export function readChange(options: ConsumerOptions): RequestedChange {
  if (options.disable && options.enable) throw badInput('Use either --disable or --enable, not both.');
  const isSwitched = options.disable !== undefined || options.enable !== undefined;
  const fields: RequestedChange['fields'] = {
    ...Object.fromEntries(
      (Object.keys(fieldRows) as FieldName[]).flatMap((field) => readField(field, options)),
    ),
    ...(isSwitched && { enabled: options.enable === true }),
  };
  // Before anything is opened.
  checkChange(fields, () => undefined);
  return {
    allow: readPermissions('--allow', options.allow),
    deny: readPermissions('--deny', options.deny),
    fields,
  };
}

function readField(field: FieldName, options: ConsumerOptions): [FieldName, unknown][] {
  const option = new Option(fieldRows[field].flags);
  const given = options[option.attributeName()];
  if (given === undefined) return [];
  const item = itemOf(field);
  if (item === undefined) return [[field, readValue(field, requested[field], String(given))]];
  const texts = given as string[];
  const { maxItems = 0 } = requested[field] as { maxItems?: number };
  if (texts.length > maxItems) throw badInput(`Use ${option.long} at most ${maxItems} times.`);
  if (!texts.includes(none)) return [[field, texts.map((text) => readValue(field, item, text))]];
  if (texts.length > 1) throw badInput(`${option.long} none can't be combined with other values.`);
  return [[field, []]];
}

/** Schema of an item; undefined where the field is no list. */
function itemOf(field: FieldName): TSchema | undefined {
  return (requested[field] as { items?: TSchema }).items;
}

function readValue(field: FieldName, schema: TSchema, text: string): unknown {
  if (text === none && Value.Check(schema, null)) return null;
  const { flags, read, refusal } = fieldRows[field];
  const value = read === undefined ? text : read(text);
  if (refusal === undefined || Value.Check(schema, value)) return value;
  throw badInput(`${new Option(flags).long} ${JSON.stringify(text)} ${refusal}`);
}

function readPermissions(option: string, texts: readonly string[] = []) {
  return texts.map((text) => parsePermission(option, text));
}

/** Throws `CommandFailed`, `Problem` invalid_request. */
export function readNewConsumer(options: ConsumerOptions): NewConsumer {
  if (options['name'] === undefined) throw badInput('--name is missing.');
  if (options.allow === undefined) throw badInput(`--allow is missing. ${allowHint}`);
  const { allow, deny, fields } = readChange(options);
  const permissions = permissionsAfter([], { allow, deny });
  // Which fields there are is checked when it is made.
  checkChange({ permissions }, (resource) => permissions.find((one) => one.resource === resource)?.fields);
  return { ...fields, ...(options.test && { mode: 'test' }), name: String(options['name']), permissions };
}

export function changeOf({ permissions }: Consumer, change: RequestedChange): ConsumerChange {
  const isSame = change.allow.length === 0 && change.deny.length === 0;
  return { ...change.fields, ...(!isSame && { permissions: permissionsAfter(permissions, change) }) };
}

function permissionsAfter(
  before: readonly RequestedPermission[],
  { allow, deny }: Pick<RequestedChange, 'allow' | 'deny'>,
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

const allowHint = `Use RESOURCE:ACTION,ACTION, such as --allow quotes:read,write. Resources: \
${permissionResources.join(', ')}. Actions: ${permissionActions.join(', ')}. Add @own to allow only the consumer's own \
records, [name,status] to allow only these fields, or +approval if another consumer has to approve hand-offs. @own and \
+approval work with ${ownableResources.join(' and ')} only.`;

const action = `(?:${permissionActions.join('|')})`;
const permissionPattern = new RegExp(
  `^(${permissionResources.join('|')}):(${action}(?:,${action})*)(?:@(${recordScopes.join('|')}))?(?:\\[([\\w,]*)\\])?(\\+approval)?$`,
);

function parsePermission(option: string, text: string): RequestedPermission {
  const [, resource = '', actions = '', records, fields, approval] = permissionPattern.exec(text) ?? [];
  const isNarrowed = records === 'own' || approval !== undefined;
  if (actions === '' || (isNarrowed && !ownableResources.includes(resource)))
    throw badInput(`${option} ${JSON.stringify(text)} isn't a permission. ${allowHint}`);
  return {
    resource,
    actions: actions.split(','),
    ...(records !== undefined && { records }),
    ...fieldsFrom(fields),
    ...(approval !== undefined && { approval: true }),
  };
}

function fieldsFrom(text: string | undefined): Pick<RequestedPermission, 'fields'> {
  return text === undefined ? {} : { fields: text.split(',').filter(Boolean) };
}

function wholeNumber(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

function numberRule(schema: TSchema): string {
  const { anyOf } = schema as unknown as { anyOf: { minimum?: number; maximum?: number }[] };
  const { minimum, maximum } = anyOf[0] ?? {};
  return `isn't valid. Use a whole number from ${minimum} to ${maximum}, or none.`;
}

function readPersonClaim(text: string) {
  const [, claim = '', value = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  return isVisible(claim + value) ? { claim, value } : undefined;
}

function readAllowance(text: string) {
  const [, digits, per] = /^(\d{1,13})\/(\w+)$/.exec(text) ?? [];
  return { requests: Number(digits), per };
}

/** A PEM or a JWK. What the file holds is in no message: it may be the private key. */
function readPublicKey(file: string): PublicKey {
  const wrong = (why: string) => badInput(`--public-key ${JSON.stringify(file)} ${why}`);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw wrong(`can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  const isPem = text.includes('-----BEGIN ');
  if (isPem && text.includes('PRIVATE KEY-----'))
    throw wrong('contains a private key, which only the partner may have. Use the public key.');
  try {
    const key: unknown = isPem ? createPublicKey(text).export({ format: 'jwk' }) : JSON.parse(text);
    if (typeof key === 'object' && key !== null && 'kty' in key) return key as PublicKey;
  } catch {
    // Said below, without the parser's text.
  }
  throw wrong("isn't a public key in PEM or JWK format.");
}

function badInput(message: string): CommandFailed {
  return new CommandFailed(message, exitBadInput);
}
