import type { Visible } from '../base/call.ts';

/** What decides: a consumer, as far as it matters here. A permission without `records` is on all. */
interface Viewer {
  id: string;
  permissions: readonly { resource: string; records?: 'all' | 'own' }[];
}

/**
 * Which records of a resource (`quotes`, `bookings`) a consumer can see; the one place that decides it. Reservations
 * follow bookings. It says nothing of what the consumer may do with them.
 */
export function visibleRecords({ id, permissions }: Viewer, resource: string): Visible {
  const isOwn = permissions.some(
    (permission) => permission.resource === resource && permission.records === 'own',
  );
  return isOwn ? { consumerId: id } : 'all';
}
