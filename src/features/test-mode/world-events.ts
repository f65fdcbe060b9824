import { wallMs } from '../../platform/base/chance.ts';
import type { FieldValues, StoredRecord } from '../../records/records.ts';
import { createRepresentation } from '../../records/representation.ts';
import type { Resource } from '../../records/resource.ts';
import { shownName } from '../../records/shown-fields.ts';
import type { EventType, NewEvent } from '../events/event-log.ts';

type What = 'created' | 'updated' | 'deleted';

/** The event of a write; nobody reads changes of a world, so the write itself reports it. Undefined where nothing has changed. */
export function eventOfWrite(
  resource: Resource,
  consumerId: string,
  what: What,
  { after, before }: { after: StoredRecord; before?: StoredRecord },
): NewEvent | undefined {
  const { name, collection, fields } = resource;
  const id = after.values['id'] as string;
  const changed = before && changedFields(resource, before.values, after.values);
  if (changed?.length === 0) return undefined;
  const isDeleted = what === 'deleted';
  return {
    type: `${name}.${what}` as EventType,
    resource: { type: name, id },
    occurredAt: isDeleted ? new Date(wallMs()).toISOString() : (after.values['updated_at'] as string),
    data: isDeleted ? JSON.stringify({ id }) : createRepresentation({ fields })(after.values),
    permission: collection as NewEvent['permission'],
    consumerId,
    ...(changed && { changed }),
  };
}

function changedFields({ fields }: Resource, before: FieldValues, after: FieldValues): string[] {
  const differing = Object.entries(fields).filter(
    ([name]) => name !== 'updated_at' && before[name] !== after[name],
  );
  return [...new Set(differing.map(([name, field]) => shownName(name, field)))];
}
