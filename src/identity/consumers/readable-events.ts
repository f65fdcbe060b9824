import type { Consumer } from './consumer.ts';
import { allows, permissionResources } from './consumer.ts';
import { visibleRecords } from './visible-records.ts';

/** Of which resources a consumer sees the events, judged by its permissions as they are now. */
export function readableEvents(consumer: Consumer) {
  const readable = permissionResources.filter((resource) => allows(consumer, resource, 'read'));
  const isWhole = (resource: string) => visibleRecords(consumer, resource) === 'all';
  return {
    consumerId: consumer.id,
    all: readable.filter(isWhole),
    own: readable.filter((resource) => !isWhole(resource)),
  };
}
