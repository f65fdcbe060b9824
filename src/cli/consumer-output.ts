import type { Rotation } from '../consumers/administration.ts';
import type { Permission } from '../consumers/consumer.ts';
import type { ConsumerView } from '../consumers/consumer-view.ts';
import { table } from './command.ts';

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
    `permissions  ${showPermissions(view.permissions)}`,
    `created      ${view.createdAt}`,
    `updated      ${view.updatedAt}`,
    `rotated      ${view.rotatedAt ?? 'never'}`,
    `certificates ${view.certificateFingerprints.join(', ') || 'none required'}`,
    ...view.credentials.map(({ apiKey, state, expiresAt }) => {
      const until = expiresAt === null ? '' : `, ${state === 'expired' ? 'since' : 'until'} ${expiresAt}`;
      return `API key      ${apiKey} (${state}${until})`;
    }),
  ].join('\n');
}

export function showConsumers(views: ConsumerView[]): string {
  if (views.length === 0) return 'There are no consumers.';
  const rows = views.map(({ id, createdAt, name, permissions }) => [
    id,
    createdAt,
    name,
    showPermissions(permissions),
  ]);
  return table([['id', 'created', 'name', 'permissions'], ...rows]);
}

function showPermissions(permissions: Permission[]): string {
  return (
    permissions
      .map(
        ({ resource, actions, records }) =>
          `${resource}:${actions.join(',')}${records === 'own' ? '@own' : ''}`,
      )
      .join(' ') || 'none'
  );
}
