import type { Visible } from '../../platform/base/call.ts';
import { ownableResources } from './consumer.ts';

/** What decides: a consumer, as far as it matters here. A permission without `records` is on all. */
interface Viewer {
  id: string;
  permissions: readonly { resource: string; records?: 'all' | 'own' }[];
}

/**
 * Which records of a resource (`quotes`, `bookings`) a consumer can see; the one place that decides it. Reservations
 * follow bookings. What the consumer may do with them is another question. For a consumer that sees only its own quotes or
 * bookings, those of others do not exist, also of a resource on which it has no permission.
 */
export function visibleRecords({ id, permissions }: Viewer, resource: string): Visible {
  if (!ownableResources.includes(resource)) return 'all';
  const permission = permissions.find((one) => one.resource === resource);
  const isOwn = permission === undefined ? permissions.some(isOnOwn) : isOnOwn(permission);
  return isOwn ? { consumerId: id } : 'all';
}

function isOnOwn({ records }: { records?: 'all' | 'own' }): boolean {
  return records === 'own';
}
