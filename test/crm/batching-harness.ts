import { randomUUID } from 'node:crypto';
import { after, afterEach, beforeEach } from 'node:test';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { aCall, type Replica, type ReplicaChanges, startCrmHarness } from './crm-harness.ts';

/** A harness for the tests of one file. Its `crm` and `metrics` are of a replica that is new for each, with its token. */
export async function startBatchingHarness() {
  const harness = await startCrmHarness();
  // The simulated org takes its time for the first query.
  await harness.crm.records.find(quote, randomUUID(), aCall());
  let replica: Replica = harness;
  const replace = async (changes?: ReplicaChanges) => {
    replica = harness.addReplica(changes);
    await replica.crm.tokens.getToken(aCall());
  };
  beforeEach(() => replace());
  afterEach(async () => {
    await harness.org.heal();
    await harness.org.configure({ latencyMs: 0, maxPageSize: 2000 });
  });
  after(() => harness.stop());
  return {
    ...harness,
    get crm() {
      return replica.crm;
    },
    get metrics() {
      return replica.metrics;
    },
    /** For a test whose calls hang: a new replica that waits for them only briefly. */
    useShortTimeout: () => replace({ timeoutMs: 700 }),
    find: (id: string) => replica.crm.records.find(quote, id, aCall()),
    /** Calls that count against the quota while the work is done. */
    callsDuring: async (work: () => Promise<unknown>): Promise<number> => {
      await harness.org.resetCounters();
      await work();
      return (await harness.org.counters()).metered;
    },
  };
}

/** External IDs that no record has. */
export const newIds = (count: number) => Array.from({ length: count }, () => randomUUID() as string);
