import { modeOf, type Visible, type VisibleFields } from '../../platform/base/call.ts';
import { ownableResources } from './consumer.ts';

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

const nothing: readonly string[] = [];

/** Which fields of a resource exist for a consumer, whatever it may do with them; without a permission none. */
export function visibleFields({ permissions }: Pick<Viewer, 'permissions'>, resource: string): VisibleFields {
  const permission = permissions.find((one) => one.resource === resource);
  return permission === undefined ? nothing : permission.fields;
}

function isOnOwn({ records }: { records?: 'all' | 'own' }): boolean {
  return records === 'own';
}
