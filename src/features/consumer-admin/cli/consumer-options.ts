import { createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { maxCertificateNames } from '../../../identity/consumers/certificate-names.ts';
import {
  type Allowance,
  allowancePeriods,
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
  maxAllowance,
  maxRateLimitPerMinute,
} from '../../../identity/consumers/consumer-change.ts';
import type { NewConsumer } from '../../../identity/consumers/consumer-store.ts';
import {
  maxClaimName,
  maxClaimValue,
  maxPeople,
  type PersonClaim,
} from '../../../identity/consumers/people.ts';
import type { RequestedPermission } from '../../../identity/consumers/permissions.ts';
import type { PublicKey } from '../../../identity/consumers/public-keys.ts';
import { readMoment } from '../../../platform/base/moment.ts';
import { isVisible } from '../../../platform/base/text.ts';
import { CommandFailed, exitBadInput } from '../../../platform/command-line/command.ts';

export interface ConsumerOptions {
  name?: string;
  allow?: string[];
  deny?: string[];
  disable?: true;
  enable?: true;
  validUntil?: string;
  rateLimit?: string;
  allowAddress?: string[];
  crmShare?: string;
  certificate?: string[];
  certificateName?: string[];
  allowance?: string;
  people?: string[];
  publicKey?: string[];
  test?: true;
  json?: true;
}

interface RequestedChange {
  allow: RequestedPermission[];
  deny: RequestedPermission[];
  fields: Omit<ConsumerChange, 'permissions'>;
}

const none = 'none';
const append = (text: string, before: string[] = []) => [...before, text];

export function addConsumerOptions(command: Command): Command {
  const words = `resources: ${permissionResources.join(', ')}; actions: ${permissionActions.join(', ')}`;
  return command
    .option('--name <name>', "the consumer's name, 1 to 100 characters")
    .option(
      '--allow <permission>',
      `everything it may do with a resource, such as quotes:read,write, quotes:read@own, \
quotes:read[name,status] or quotes:read,write+approval; repeatable; ${words}`,
      append,
    )
    .option('--deny <permission>', 'actions to take away, such as quotes:write; repeatable', append)
    .option('--disable', 'reject its credentials until you enable it again')
    .option('--enable', 'accept its credentials again')
    .option(
      '--valid-until <moment>',
      'reject its credentials from this time on, such as 2030-12-31T23:59:59Z, or none',
    )
    .option('--rate-limit <requests>', 'requests allowed in 60 seconds, or none for the default limit')
    .option(
      '--allow-address <address>',
      'IP address or range (CIDR) that it may call from, or none for any; repeatable, replaces the old list',
      append,
    )
    .option(
      '--crm-share <percent>',
      'percentage of Salesforce calls reserved for it when calls run short, or none',
    )
    .option(
      '--certificate <fingerprint>',
      'SHA-256 of a client certificate that it must use, or none; repeatable, replaces the old list',
      append,
    )
    .option(
      '--certificate-name <name>',
      'DNS name, URI or e-mail address in the client certificate that it must use, or none; repeatable, replaces the old list',
      append,
    )
    .option('--allowance <requests>', 'requests allowed each day or month (UTC), such as 10000/day, or none')
    .option(
      '--people <claim=value>',
      'ID token claim of people who may act as it in the console, such as groups=travel-desk, or none; repeatable, replaces the old list',
      append,
    )
    .option(
      '--public-key <file>',
      'file with the public key (PEM or JWK) for its signed token requests, or none; repeatable, replaces the old list',
      append,
    )
    .option('--json', 'print JSON');
}

/** Throws `CommandFailed`, `Problem` invalid_request. */
export function readChange(options: ConsumerOptions): RequestedChange {
  const { name, validUntil } = options;
  if (options.disable && options.enable) throw badInput('Use either --disable or --enable, not both.');
  const isSwitched = options.disable !== undefined || options.enable !== undefined;
  const fields = {
    ...(name !== undefined && { name }),
    ...(isSwitched && { enabled: options.enable === true }),
    ...(validUntil !== undefined && { validUntil: readValidUntil(validUntil) }),
    ...readNumbers(options),
    ...readLists(options),
  };
  // Before anything is opened.
  checkChange(fields, () => undefined);
  return {
    allow: readPermissions('--allow', options.allow),
    deny: readPermissions('--deny', options.deny),
    fields,
  };
}

function readPermissions(option: string, texts: readonly string[] = []) {
  return texts.map((text) => parsePermission(option, text));
}

function readLists({ allowAddress, certificate, certificateName, people, publicKey }: ConsumerOptions) {
  return {
    ...(allowAddress && { allowedAddresses: readList('--allow-address', allowAddress) }),
    ...(certificate && { certificateFingerprints: readFingerprints(certificate) }),
    ...(certificateName && {
      certificateNames: readList('--certificate-name', certificateName, maxCertificateNames),
    }),
    ...(people && { people: readList('--people', people, maxPeople).map(readPersonClaim) }),
    ...(publicKey && { publicKeys: readList('--public-key', publicKey).map(readPublicKey) }),
  };
}

function readNumbers({
  rateLimit,
  crmShare,
  allowance,
}: ConsumerOptions): Omit<ConsumerChange, 'permissions'> {
  return {
    ...(rateLimit !== undefined && {
      rateLimitPerMinute: readNumber('--rate-limit', rateLimit, maxRateLimitPerMinute),
    }),
    ...(crmShare !== undefined && { crmShare: readNumber('--crm-share', crmShare, 100) }),
    ...(allowance !== undefined && { allowance: readAllowance(allowance) }),
  };
}

export function readNewConsumer(options: ConsumerOptions): NewConsumer {
  if (options.name === undefined) throw badInput('--name is missing.');
  if (options.allow === undefined) throw badInput(`--allow is missing. ${allowHint}`);
  const change = readChange(options);
  const permissions = permissionsAfter([], change);
  // Which fields there are is checked when it is made.
  checkChange({ permissions }, (resource) => permissions.find((one) => one.resource === resource)?.fields);
  return { ...change.fields, ...(options.test && { mode: 'test' }), name: options.name, permissions };
}

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

function readValidUntil(text: string): string | null {
  if (text === none) return null;
  if (readMoment(text) !== undefined) return text;
  throw badInput(
    `--valid-until ${JSON.stringify(text)} isn't a time. Use one such as 2030-12-31T23:59:59Z, or none.`,
  );
}

function readNumber(option: string, text: string, most: number): number | null {
  if (text === none) return null;
  const number = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= most) return number;
  throw badInput(
    `${option} ${JSON.stringify(text)} isn't valid. Use a whole number from 1 to ${most}, or none.`,
  );
}

function readPersonClaim(text: string): PersonClaim {
  const [, claim = '', value = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  const fits = claim.length <= maxClaimName && value.length <= maxClaimValue && isVisible(claim + value);
  if (claim !== '' && fits) return { claim, value };
  throw badInput(
    `--people ${JSON.stringify(text)} isn't a claim with a value. Use one such as groups=travel-desk, or none.`,
  );
}

function readAllowance(text: string): Allowance | null {
  if (text === none) return null;
  const [, digits, period] = /^(\d{1,13})\/(\w+)$/.exec(text) ?? [];
  const requests = Number(digits);
  const per = allowancePeriods.find((one) => one === period);
  if (per !== undefined && requests >= 1 && requests <= maxAllowance) return { requests, per };
  throw badInput(
    `--allowance ${JSON.stringify(text)} isn't valid. Use a number of requests such as 10000/day or 200000/month, or none.`,
  );
}

function readFingerprints(texts: readonly string[]): string[] {
  const list = readList('--certificate', texts);
  const wrong = list.find((text) => !new RegExp(fingerprintPattern).test(text));
  if (wrong === undefined) return list;
  throw badInput(
    `--certificate ${JSON.stringify(wrong)} isn't the SHA-256 of a certificate. Use 64 hex digits, or none.`,
  );
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

function readList(option: string, texts: readonly string[], most = Number.POSITIVE_INFINITY): string[] {
  if (texts.length > most) throw badInput(`Use ${option} at most ${most} times.`);
  if (!texts.includes(none)) return [...texts];
  if (texts.length > 1) throw badInput(`${option} none can't be combined with other values.`);
  return [];
}

function badInput(message: string): CommandFailed {
  return new CommandFailed(message, exitBadInput);
}
