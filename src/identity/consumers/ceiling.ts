import { isFieldVisible, type Mode, modeOf } from '../../platform/base/call.ts';
import { containsNetworks } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import {
  type Consumer,
  type Permission,
  permissionActions,
  permissionResources,
  recordsOf,
} from './consumer.ts';

export type Bounds = Pick<Consumer, 'permissions'> &
  Partial<
    Pick<
      Consumer,
      | 'id'
      | 'unknownPermissions'
      | 'validUntil'
      | 'rateLimitPerMinute'
      | 'allowedAddresses'
      | 'certificateFingerprints'
      | 'certificateNames'
      | 'crmShare'
      | 'allowance'
    >
  > & {
    mode?: Mode;
  };

export const unbounded: Bounds = {
  permissions: permissionResources.map((resource) => ({ resource, actions: [...permissionActions] })),
};

/**
 * A caller may create, change, rotate, disable or delete only a consumer within its own permissions and limits. Throws
 * `Problem` permission_denied naming the first permission, or else the first limit, by which this one exceeds the caller.
 */
export function requireWithin(caller: Consumer, consumer: Bounds): void {
  requirePermissionsWithin(caller, consumer);
  requireUnknownWithin(caller, consumer);
  const wider = limits.find(({ isWithin }) => !isWithin(consumer, caller));
  if (wider === undefined) return;
  const detail =
    `These credentials are limited by ${wider.field}: they may manage only consumers whose ${wider.field} is at least as ` +
    'narrow, before and after the change.';
  throw new Problem('permission_denied', detail);
}

interface Limit {
  field: keyof Bounds;
  isWithin(consumer: Bounds, caller: Bounds): boolean;
}

/** Null is no limit, also for the rate, whatever the default rate in the settings is. */
const limits: readonly Limit[] = [
  limitOf('validUntil', (moment, end) => Date.parse(moment) <= Date.parse(end)),
  limitOf('rateLimitPerMinute', (rate, most) => rate <= most),
  limitOf('allowedAddresses', (addresses, all) => containsNetworks(all, addresses)),
  { field: 'certificateFingerprints', isWithin: areCertificatesWithin },
  // A month has 28 days at least, and 31 at most.
  limitOf('allowance', (own, most) =>
    own.per === 'day' && most.per === 'month'
      ? own.requests * 31 <= most.requests
      : own.requests <= most.requests,
  ),
  {
    field: 'crmShare',
    isWithin: (consumer, { crmShare: bound }) =>
      typeof bound !== 'number' || largestShareOf(consumer) <= bound,
  },
];

function areCertificatesWithin(consumer: Bounds, caller: Bounds): boolean {
  const entriesOf = ({ certificateFingerprints = [], certificateNames = [] }: Bounds) => [
    ...certificateFingerprints,
    ...certificateNames,
  ];
  const bound = entriesOf(caller);
  const entries = entriesOf(consumer);
  return bound.length === 0 || (entries.length > 0 && entries.every((one) => bound.includes(one)));
}

/** Per cent that the consumer gets or can give away: an administrator without a share of its own may give any to live ones. */
function largestShareOf({ id, mode = modeOf(id), permissions, crmShare }: Bounds): number {
  if (typeof crmShare === 'number') return crmShare;
  const isAdministrator = permissions.some(
    ({ resource, actions }) => resource === 'consumers' && actions.includes('write'),
  );
  return isAdministrator && mode === 'live' ? 100 : 0;
}

function limitOf<const F extends keyof Bounds>(
  field: F,
  isWithin: (value: NonNullable<Bounds[F]>, bound: NonNullable<Bounds[F]>) => boolean,
): Limit {
  const valueOf = (bounds: Bounds) => {
    const value = bounds[field] ?? undefined;
    return Array.isArray(value) && value.length === 0 ? undefined : value;
  };
  return {
    field,
    isWithin: (consumer, caller) => {
      const [value, bound] = [valueOf(consumer), valueOf(caller)];
      return bound === undefined || (value !== undefined && isWithin(value, bound));
    },
  };
}

/**
 * A permission on own records is less than one on all, one that needs approval less than one that does not, and one on
 * some fields less than one on all. Own records of one consumer are not those of another. So a caller with own records may
 * give them only to a new consumer, which has no records yet.
 */
function requirePermissionsWithin(caller: Consumer, { id, permissions }: Bounds): void {
  const isOwnWithin = id === undefined || id === caller.id;
  for (const permission of permissions) {
    const { resource } = permission;
    const of = caller.permissions.filter((had) => had.resource === resource);
    for (const action of permission.actions) {
      const excesses = of
        .filter(({ actions }) => actions.includes(action))
        .map((had) => excessOf(permission, had, isOwnWithin));
      if (!excesses.includes(undefined)) throw lacking(resource, action, excesses[0] ?? '');
    }
  }
}

/** Excess of a permission over one on the same resource, in words; undefined where it is within it. */
function excessOf(permission: Permission, had: Permission, isOwnWithin: boolean): string | undefined {
  const isOwn = recordsOf(permission) === 'own' && isOwnWithin;
  if (recordsOf(had) === 'own' && !isOwn) return ' on all records';
  if (had.approval && !permission.approval) return ' without approval';
  return fieldExcessOf(permission, had);
}

function fieldExcessOf({ fields }: Permission, had: Permission): string | undefined {
  if (had.fields === undefined) return undefined;
  if (fields === undefined) return ' on all fields';
  const field = fields.find((name) => !isFieldVisible(had.fields, name));
  return field && ` on the field ${field}`;
}

/**
 * Compares permissions that only a newer version understands: whether one is less than another is not known, so the
 * caller must have each as it is.
 */
function requireUnknownWithin(
  { unknownPermissions: had = [] }: Consumer,
  { unknownPermissions = [] }: Bounds,
): void {
  const texts = new Set(had.map((permission) => JSON.stringify(permission)));
  const missing = unknownPermissions.find((permission) => !texts.has(JSON.stringify(permission)));
  if (missing === undefined) return;
  const { resource, actions } = missing as { resource: string; actions: readonly string[] };
  throw lacking(resource, actions[0] ?? '', ' of a newer version');
}

function lacking(resource: string, action: string, more: string): Problem {
  const detail = `These credentials lack the permission ${resource}:${action}${more}, which this consumer has.`;
  return new Problem('permission_denied', detail, { required: { resource, action } });
}
