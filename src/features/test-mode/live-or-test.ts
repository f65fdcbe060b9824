import type { Call } from '../../platform/base/call.ts';
import { adapterFor } from '../../platform/base/mode.ts';
import type { Records } from '../../records/records.ts';

export function liveOrTest(live: Records, test: Records): Records {
  const of = (call: Call | undefined) => adapterFor(call ?? {}, { live, test });
  return {
    admit: (call) => of(call).admit(call),
    now: (call) => of(call).now(call),
    create: (resource, externalId, values, call, options) =>
      of(call).create(resource, externalId, values, call, options),
    createAndRead: (resource, externalId, values, call, options) =>
      of(call).createAndRead(resource, externalId, values, call, options),
    writeTogether: (writes, call, options) => of(call).writeTogether(writes, call, options),
    listTogether: (lists, call) => of(call).listTogether(lists, call),
    findTogether: (keys, call) => of(call).findTogether(keys, call),
    find: (resource, externalId, call) => of(call).find(resource, externalId, call),
    findWithDeleted: (resource, externalId, call) => of(call).findWithDeleted(resource, externalId, call),
    list: (resource, query, call) => of(call).list(resource, query, call),
    update: (resource, record, values, call) => of(call).update(resource, record, values, call),
    updateAndRead: (resource, record, values, call) => of(call).updateAndRead(resource, record, values, call),
    remove: (resource, ref, call) => of(call).remove(resource, ref, call),
  };
}
