import { isFieldVisible, modeOf, type Visible, type VisibleFields } from '../../platform/base/call.ts';
import { type Fault, Problem } from '../../platform/base/problem.ts';
import { isVisible } from '../../platform/base/text.ts';
import {
  allows,
  type Consumer,
  needsApproval,
  ownableResources,
  type Permission,
  type PermissionAction,
  type PermissionResource,
  permissionActions,
  permissionResources,
  recordScopes,
} from './consumer.ts';

export interface RequestedPermission {
  resource: string;
  actions: readonly string[];
  /** `all` if left out. */
  records?: string;
  approval?: boolean;
  /** All if left out. */
  fields?: readonly string[];
}

/** The fields that a permission on a resource may name; undefined for a resource without any. */
export type FieldNames = (resource: string) => readonly string[] | undefined;

export interface RequiredPermission {
  resource: PermissionResource;
  action: PermissionAction;
}

const resources: readonly string[] = permissionResources;
const actions: readonly string[] = permissionActions;
const scopes: readonly string[] = recordScopes;
export const maxConsumerNameLength = 100;

/**
 * The permissions, one for each resource, in a fixed order. Throws `Problem` invalid_request naming every fault
 * by JSON Pointer (`#/permissions/0/resource`).
 */
export function checkPermissions(
  requested: readonly RequestedPermission[],
  fieldNames: FieldNames,
): Permission[] {
  const faults = requested.flatMap((permission, i) => [
    ...faultsOf(permission, `#/permissions/${i}`),
    ...fieldFaultsOf(permission, `#/permissions/${i}/fields`, fieldNames),
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
    return [
      {
        resource,
        actions: granted,
        ...(wanted.records === 'own' && { records: 'own' as const }),
        ...(wanted.approval && { approval: true }),
        ...(wanted.fields && { fields: [...new Set(wanted.fields)] }),
      },
    ];
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

/**
 * Throws `Problem` permission_denied for the first of the fields that the consumer's permission on the resource does not
 * name. `fields` is called only where it names any.
 */
export function requireFields(
  consumer: Consumer,
  { resource, action }: RequiredPermission,
  fields: () => readonly string[],
): void {
  const visible = visibleFields(consumer, resource);
  const field = visible && fields().find((name) => !isFieldVisible(visible, name));
  if (field === undefined) return;
  const detail = `These credentials lack the permission ${resource}:${action} on the field ${field}.`;
  throw new Problem('permission_denied', detail, { required: { resource, action, field } });
}

export function permissionDenied(wanted: readonly RequiredPermission[]): Problem {
  const names = wanted.map(({ resource, action }) => `${resource}:${action}`).join(' or ');
  return new Problem('permission_denied', `These credentials lack the permission ${names}.`, {
    ...(wanted[0] && { required: wanted[0] }),
  });
}

/**
 * Throws `Problem` approval_required where what the consumer does needs approval, which only hand-offs get. `advice`: what to do
 * where a hand-off is no way out.
 */
export function requireNoApproval(
  consumer: Consumer,
  { resource, action }: RequiredPermission,
  advice = 'hand the result off with POST /api/v1/handoff instead',
): void {
  const isAsked = allows(consumer, resource, action) || allows(consumer, resource, 'write');
  if (action === 'read' || !isAsked || !needsApproval(consumer, resource)) return;
  throw new Problem(
    'approval_required',
    `Writing ${resource} with these credentials needs approval: ${advice}.`,
    { required: { resource, action } },
  );
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
    const message = `can be own only on ${ownableResources.join(' and ')}`;
    faults.push({ pointer: `${pointer}/records`, message });
  }
  if (permission.approval && !ownableResources.includes(permission.resource)) {
    const message = `can be true only on ${ownableResources.join(' and ')}`;
    faults.push({ pointer: `${pointer}/approval`, message });
  }
  return faults;
}

/** The first name that is wrong: a list of all would be as long as the request wants it. */
function fieldFaultsOf(
  { resource, fields }: RequestedPermission,
  pointer: string,
  fieldNames: FieldNames,
): Fault[] {
  if (fields === undefined) return [];
  const names = fieldNames(resource);
  if (names === undefined) return [{ pointer, message: "can't be named on this resource" }];
  const wrong = fields.findIndex((field) => !names.includes(field));
  const message = `isn't a field of ${resource}; use one of ${names.join(', ')}`;
  return wrong < 0 ? [] : [{ pointer: `${pointer}/${wrong}`, message }];
}

function summary(faults: readonly Fault[]): string {
  const texts = faults.map((fault) => `${'pointer' in fault ? fault.pointer.slice(2) : ''} ${fault.message}`);
  return `The consumer isn't valid: ${texts.join('; ')}.`;
}

interface Viewer {
  id: string;
  permissions: readonly { resource: string; records?: 'all' | 'own'; fields?: readonly string[] }[];
}

/**
 * Which records of a resource (`quotes`, `bookings`) a consumer can see; the one place that decides it. Reservations
 * follow bookings. What the consumer may do with them is another question. For a consumer that sees only its own quotes or
 * bookings, those of others do not exist, also of a resource on which it has no permission. For a test consumer there is
 * nothing but what it made.
 */
export function visibleRecords({ id, permissions }: Viewer, resource: string): Visible {
  if (!ownableResources.includes(resource)) return 'all';
  const permission = permissions.find((one) => one.resource === resource);
  const isNarrowed = permission === undefined ? permissions.some(isOnOwn) : isOnOwn(permission);
  return isNarrowed || modeOf(id) === 'test' ? { consumerId: id } : 'all';
}

const noFields: readonly string[] = [];

/** Which fields of a resource exist for a consumer, whatever it may do with them; without a permission none. */
export function visibleFields({ permissions }: Pick<Viewer, 'permissions'>, resource: string): VisibleFields {
  const permission = permissions.find((one) => one.resource === resource);
  return permission === undefined ? noFields : permission.fields;
}

function isOnOwn({ records }: { records?: 'all' | 'own' }): boolean {
  return records === 'own';
}
