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
    const name = `${resource}:${action}${isPart ? ' on all records' : ''}`;
    throw new Problem(
      'permission_denied',
      `These credentials lack the permission ${name}, which this consumer has.`,
      {
        required: { resource, action },
      },
    );
  }
}
