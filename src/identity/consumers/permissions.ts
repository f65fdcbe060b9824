import { Problem } from '../../platform/base/problem.ts';
import type { Fault } from '../../platform/base/problems.ts';
import { isVisible } from '../../platform/base/visible-text.ts';
import {
  allows,
  type Consumer,
  ownableResources,
  type Permission,
  type PermissionAction,
  type PermissionResource,
  permissionActions,
  permissionResources,
  recordScopes,
} from './consumer.ts';

/** A permission as it was requested, not checked yet. */
export interface RequestedPermission {
  resource: string;
  actions: readonly string[];
  /** `all` if left out. */
  records?: string;
}

/** What a caller needs for a request. */
export interface RequiredPermission {
  resource: PermissionResource;
  action: PermissionAction;
}

const resources: readonly string[] = permissionResources;
const actions: readonly string[] = permissionActions;
const scopes: readonly string[] = recordScopes;
/** Characters in the name of a consumer at most. */
export const maxConsumerNameLength = 100;

/**
 * The permissions, one for each resource, in a fixed order. Throws `Problem` invalid_request naming every fault
 * by JSON Pointer (`#/permissions/0/resource`).
 */
export function checkPermissions(requested: readonly RequestedPermission[]): Permission[] {
  const faults = requested.flatMap((permission, i) => [
    ...faultsOf(permission, `#/permissions/${i}`),
    ...repeats(requested, i),
  ]);
  if (requested.length === 0)
    faults.push({ pointer: '#/permissions', message: 'at least one permission is needed' });
  if (faults.length > 0) throw new Problem('invalid_request', summary(faults), { errors: faults });
  return permissionResources.flatMap((resource) => {
    const wanted = requested.find((permission) => permission.resource === resource);
    if (wanted === undefined) return [];
    const granted = permissionActions.filter((action): action is PermissionAction =>
      wanted.actions.includes(action),
    );
    return [{ resource, actions: granted, ...(wanted.records === 'own' && { records: 'own' as const }) }];
  });
}

function repeats(requested: readonly RequestedPermission[], i: number): Fault[] {
  const isFirst = requested.findIndex(({ resource }) => resource === requested[i]?.resource) === i;
  return isFirst
    ? []
    : [{ pointer: `#/permissions/${i}/resource`, message: 'is listed already; list each resource once' }];
}

/**
 * The name, unless it is empty, too long, or not visible. Throws `Problem` invalid_request.
 */
export function checkConsumerName(name: string): string {
  const length = [...name.slice(0, 4 * maxConsumerNameLength)].length;
  const isText = /\S/.test(name) && isVisible(name);
  if (length <= maxConsumerNameLength && isText) return name;
  const message = `must have 1 to ${maxConsumerNameLength} printable characters, not only white space`;
  const faults = [{ pointer: '#/name', message }];
  throw new Problem('invalid_request', summary(faults), { errors: faults });
}

export function hasOneOf(consumer: Consumer, wanted: readonly RequiredPermission[]): boolean {
  return wanted.some(({ resource, action }) => allows(consumer, resource, action));
}

/** Throws `Problem` permission_denied, naming the first, where the consumer has none of these permissions. */
export function requireOneOf(consumer: Consumer, wanted: readonly RequiredPermission[]): void {
  if (!hasOneOf(consumer, wanted)) throw permissionDenied(wanted);
}

/** The problem for a caller without any of these permissions; `required` names the first. */
export function permissionDenied(wanted: readonly RequiredPermission[]): Problem {
  const names = wanted.map(({ resource, action }) => `${resource}:${action}`).join(' or ');
  return new Problem('permission_denied', `These credentials lack the permission ${names}.`, {
    ...(wanted[0] && { required: wanted[0] }),
  });
}

function faultsOf(permission: RequestedPermission, pointer: string): Fault[] {
  const faults: Fault[] = [];
  if (!resources.includes(permission.resource)) {
    faults.push({ pointer: `${pointer}/resource`, message: `must be one of ${resources.join(', ')}` });
  }
  if (permission.actions.length === 0 || permission.actions.some((action) => !actions.includes(action))) {
    faults.push({ pointer: `${pointer}/actions`, message: `must be one or more of ${actions.join(', ')}` });
  }
  if (permission.records !== undefined && !scopes.includes(permission.records)) {
    faults.push({ pointer: `${pointer}/records`, message: `must be one of ${scopes.join(', ')}` });
  }
  if (permission.records === 'own' && !ownableResources.includes(permission.resource)) {
    const message = `may be own on ${ownableResources.join(' and ')} only`;
    faults.push({ pointer: `${pointer}/records`, message });
  }
  return faults;
}

function summary(faults: readonly Fault[]): string {
  const texts = faults.map((fault) => `${'pointer' in fault ? fault.pointer.slice(2) : ''} ${fault.message}`);
  return `The consumer is not valid: ${texts.join('; ')}.`;
}
