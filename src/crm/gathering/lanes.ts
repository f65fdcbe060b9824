import type { Metrics } from '../../observability/metrics.ts';
import type { StoredRecord } from '../../resources/records.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { type Created, type Creation, createCreate } from './creates.ts';
import { createFind, type OperationOptions } from './finds.ts';
import { createLane, type Lane } from './lane.ts';
import type { Operation } from './operation.ts';
import { createDelete, createUpdate, type Deletion, type Update, type Updated } from './updates.ts';

/** One lane for each kind of work on the records of one resource. */
export interface Lanes {
  /** By External ID in lower case. */
  finds: Lane<string, StoredRecord | undefined>;
  creates: Lane<Creation, Created>;
  updates: Lane<Update, Updated>;
  deletes: Lane<Deletion, undefined>;
}

export interface LanesOptions extends OperationOptions {
  client: CrmClient;
  timeoutMs: number;
  metrics: Metrics;
}

export function createLanes(options: LanesOptions): Lanes {
  const lane = <Item, Result>(operation: Operation<Item, Result>) =>
    createLane({ ...options, operation, name: `${options.resource.name} ${operation.name}` });
  return {
    finds: lane(createFind(options)),
    creates: lane(createCreate(options)),
    updates: lane(createUpdate(options)),
    deletes: lane(createDelete(options)),
  };
}
