import { Problem } from '../base/problem.ts';
import {
  type Consumer,
  type Permission,
  permissionActions,
  permissionResources,
  recordsOf,
} from './consumer.ts';

/** Every permission that there is. */
export const everyPermission: readonly Permission[] = permissionResources.map((resource) => ({
  resource,
  actions: [...permissionActions],
}));

/**
 * Nobody gives, takes or takes over more than they have. Throws `Problem` permission_denied naming the first of these
 * permissions that the caller lacks; one on own records is less than one on all.
 */
export function requireWithin(
  caller: Pick<Consumer, 'permissions'>,
  permissions: readonly Permission[],
): void {
  for (const { resource, actions, ...rest } of permissions) {
    const had = caller.permissions.filter(
      (permission) =>
        permission.resource === resource &&
        (recordsOf(permission) === 'all' || recordsOf({ resource, actions, ...rest }) === 'own'),
    );
    const action = actions.find((one) => !had.some((permission) => permission.actions.includes(one)));
    if (action === undefined) continue;
    const isPart = caller.permissions.some(
      (permission) => permission.resource === resource && permission.actions.includes(action),
    );
    throw lacking(resource, action, isPart ? ' on all records' : '');
  }
}

/**
 * The same for permissions that only a newer version understands: nobody can tell whether one is less than another, so the
 * caller must have each as it is.
 */
export function requireUnknownWithin(
  { unknownPermissions: had = [] }: Pick<Consumer, 'unknownPermissions'>,
  permissions: readonly unknown[] = [],
): void {
  const texts = new Set(had.map((permission) => JSON.stringify(permission)));
  const missing = permissions.find((permission) => !texts.has(JSON.stringify(permission)));
  if (missing === undefined) return;
  const { resource, actions } = missing as { resource: string; actions: readonly string[] };
  throw lacking(resource, actions[0] ?? '', ' of a newer version');
}

function lacking(resource: string, action: string, more: string): Problem {
  const detail = `These credentials lack the permission ${resource}:${action}${more}, which this consumer has.`;
  return new Problem('permission_denied', detail, { required: { resource, action } });
}
