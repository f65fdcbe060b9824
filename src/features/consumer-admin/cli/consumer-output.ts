import type { Rotation } from '../../../identity/consumers/administration.ts';
import type { Permission } from '../../../identity/consumers/consumer.ts';
import type { ConsumerView } from '../../../identity/consumers/consumer-view.ts';
import { thumbprintOf } from '../../../identity/consumers/public-keys.ts';
import { wallMs } from '../../../platform/base/chance.ts';
import { table } from '../../../platform/command-line/command.ts';

const secretOnce = ['', "Save the secret now. You can't see it again."];

export function showCreated(created: {
  id: string;
  name: string;
  mode?: string;
  apiKey: string;
  apiSecret: string;
  permissions: Permission[];
}): string {
  return [
    `id           ${created.id}`,
    `name         ${created.name}`,
    ...(created.mode ? [`mode         ${created.mode}`] : []),
    `permissions  ${showPermissions(created.permissions)}`,
    `API key      ${created.apiKey}`,
    `API secret   ${created.apiSecret}`,
    ...secretOnce,
  ].join('\n');
}

export function showRotation({ id, apiKey, apiSecret, previous }: Rotation): string {
  return [
    `id           ${id}`,
    `API key      ${apiKey}`,
    `API secret   ${apiSecret}`,
    ...secretOnce,
    ...(previous ? [`The old key ${previous.apiKey} stays valid until ${previous.expiresAt}.`] : []),
  ].join('\n');
}

export function showConsumer(view: ConsumerView): string {
  return [
    `id           ${view.id}`,
    `name         ${view.name}`,
    `mode         ${view.mode}`,
    `state        ${stateOf(view)}`,
    `permissions  ${showPermissions(view.permissions)}`,
    `valid until  ${view.validUntil ?? 'no expiry'}`,
    `rate limit   ${view.rateLimitPerMinute ?? 'default'}`,
    `call share   ${view.crmShare === null ? 'none' : `${view.crmShare}% of Salesforce calls`}`,
    `addresses    ${view.allowedAddresses.join(', ') || 'any'}`,
    `allowance    ${showAllowance(view.allowance) ?? 'none'}`,
    `certificates ${[...view.certificateFingerprints, ...view.certificateNames].join(', ') || 'none'}`,
    `people       ${view.people.map(({ claim, value }) => `${claim}=${value}`).join(', ') || 'none'}`,
    `public keys  ${view.publicKeys.map((key) => key.kid ?? thumbprintOf(key)).join(', ') || 'none'}`,
    `created      ${view.createdAt}`,
    `updated      ${view.updatedAt}`,
    `rotated      ${view.rotatedAt ?? 'never'}`,
    `last used    ${showUse(view.lastUsedAt)}`,
    ...view.credentials.map(({ apiKey, state, expiresAt, lastUsedAt }) => {
      const until = expiresAt === null ? '' : `, ${state === 'expired' ? 'since' : 'until'} ${expiresAt}`;
      return `API key      ${apiKey} (${state}${until}; last used: ${showUse(lastUsedAt)})`;
    }),
  ].join('\n');
}

/** Characters of a name in the list; all that is printed fits 100 columns. */
const maxNameColumns = 40;
const indent = '  ';

export function showConsumers(views: ConsumerView[]): string {
  if (views.length === 0) return 'No consumers yet.';
  const rows = views.map((view) => [view.id, shorten(view.name), stateOf(view), showUse(view.lastUsedAt)]);
  const [head = '', ...lines] = table([['id', 'name', 'state', 'last used'], ...rows]).split('\n');
  const details = views.map((view) => wrap([...view.permissions.map(showPermission), ...limitsOf(view)]));
  return [head, ...lines.flatMap((line, i) => [line, ...(details[i] ?? [])])].join('\n');
}

function stateOf({ enabled, validUntil }: ConsumerView): string {
  if (!enabled) return 'disabled';
  return validUntil !== null && Date.parse(validUntil) <= wallMs() ? 'expired' : 'active';
}

function limitsOf(view: ConsumerView): string[] {
  const { validUntil, rateLimitPerMinute, allowedAddresses, crmShare, publicKeys } = view;
  const allowance = showAllowance(view.allowance);
  const certificates = view.certificateFingerprints.length + view.certificateNames.length;
  return [
    ...(view.mode === 'live' ? [] : [view.mode]),
    ...(validUntil === null ? [] : [`until ${validUntil}`]),
    ...(rateLimitPerMinute === null ? [] : [`${rateLimitPerMinute} requests a minute`]),
    ...(crmShare === null ? [] : [`${crmShare}% of Salesforce calls`]),
    ...(allowedAddresses.length === 0 ? [] : [`from ${allowedAddresses.join(', ')}`]),
    ...(allowance === undefined ? [] : [allowance]),
    ...(certificates === 0 ? [] : [`certificates: ${certificates}`]),
    ...(view.people.length === 0 ? [] : [`people: ${view.people.length}`]),
    ...(publicKeys.length === 0 ? [] : [`public keys: ${publicKeys.length}`]),
  ].map((limit) => `(${limit})`);
}

function showAllowance(allowance: ConsumerView['allowance']): string | undefined {
  return allowance === null ? undefined : `${allowance.requests} requests a ${allowance.per}`;
}

function showUse(lastUsedAt: string | null | undefined): string {
  if (lastUsedAt === undefined) return 'unknown';
  return lastUsedAt === null ? 'never' : lastUsedAt.slice(0, 16).replace('T', ' ');
}

function shorten(name: string): string {
  return name.length <= maxNameColumns ? name : `${name.slice(0, maxNameColumns - 1)}…`;
}

/** Words in lines of at most 100 columns. */
function wrap(texts: readonly string[]): string[] {
  const lines: string[] = [];
  for (const word of texts.flatMap((text) => text.split(' '))) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < 100) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`${indent}${word}`);
  }
  return lines;
}

function showPermissions(permissions: Permission[]): string {
  return permissions.map(showPermission).join(' ') || 'none';
}

function showPermission({ resource, actions, records, fields, approval }: Permission): string {
  const bounds = [records === 'own' && '@own', fields && `[${fields.join(',')}]`, approval && '+approval'];
  return `${resource}:${actions.join(',')}${bounds.filter(Boolean).join('')}`;
}
