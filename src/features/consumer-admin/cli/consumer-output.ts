import type { Rotation } from '../../../identity/consumers/administration.ts';
import type { Permission } from '../../../identity/consumers/consumer.ts';
import type { ConsumerView } from '../../../identity/consumers/consumer-view.ts';
import { table } from '../../../platform/command-line/command.ts';

const secretOnce = ['', 'The secret is not stored and cannot be shown again.'];

/** A new consumer as a person reads it. */
export function showCreated(created: {
  id: string;
  name: string;
  apiKey: string;
  apiSecret: string;
  permissions: Permission[];
}): string {
  return [
    `id           ${created.id}`,
    `name         ${created.name}`,
    `permissions  ${showPermissions(created.permissions)}`,
    `API key      ${created.apiKey}`,
    `API secret   ${created.apiSecret}`,
    ...secretOnce,
  ].join('\n');
}

/** A new pair as a person reads it. */
export function showRotation({ id, apiKey, apiSecret, previous }: Rotation): string {
  return [
    `id           ${id}`,
    `API key      ${apiKey}`,
    `API secret   ${apiSecret}`,
    ...secretOnce,
    ...(previous ? [`The old key ${previous.apiKey} is valid until ${previous.expiresAt}.`] : []),
  ].join('\n');
}

export function showConsumer(view: ConsumerView): string {
  return [
    `id           ${view.id}`,
    `name         ${view.name}`,
    `state        ${stateOf(view)}`,
    `permissions  ${showPermissions(view.permissions)}`,
    `valid until  ${view.validUntil ?? 'revoked'}`,
    `rate limit   ${view.rateLimitPerMinute ?? 'that of the settings'}`,
    `addresses    ${view.allowedAddresses.join(', ') || 'any'}`,
    `certificates ${view.certificateFingerprints.join(', ') || 'none required'}`,
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
  if (views.length === 0) return 'There are no consumers.';
  const rows = views.map((view) => [view.id, shorten(view.name), stateOf(view), showUse(view.lastUsedAt)]);
  const [head = '', ...lines] = table([['id', 'name', 'state', 'last used'], ...rows]).split('\n');
  const details = views.map((view) => wrap([...view.permissions.map(showPermission), ...limitsOf(view)]));
  return [head, ...lines.flatMap((line, i) => [line, ...(details[i] ?? [])])].join('\n');
}

function stateOf({ enabled, validUntil }: ConsumerView): string {
  if (!enabled) return 'disabled';
  return validUntil !== null && Date.parse(validUntil) <= Date.now() ? 'expired' : 'active';
}

function limitsOf(view: ConsumerView): string[] {
  const { validUntil, rateLimitPerMinute, allowedAddresses, certificateFingerprints } = view;
  return [
    ...(validUntil === null ? [] : [`until ${validUntil}`]),
    ...(rateLimitPerMinute === null ? [] : [`${rateLimitPerMinute} a minute`]),
    ...(allowedAddresses.length === 0 ? [] : [`from ${allowedAddresses.join(', ')}`]),
    ...(certificateFingerprints.length === 0 ? [] : [`certificates: ${certificateFingerprints.length}`]),
  ].map((limit) => `(${limit})`);
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

function showPermission({ resource, actions, records }: Permission): string {
  return `${resource}:${actions.join(',')}${records === 'own' ? '@own' : ''}`;
}
