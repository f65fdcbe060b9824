import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createColumns } from '../../../src/crm/optional-columns.ts';
import { OrgSchema } from '../../../src/crm/org-schema.ts';
import { DescribedObjectsTable } from '../../../src/features/org-schema/described-objects-table.ts';
import { orgSchemaMetrics } from '../../../src/features/org-schema/metrics.ts';
import { OrgWatch } from '../../../src/features/org-schema/org-watch.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { leaseLock } from '../../../src/platform/store/database-locks.ts';
import { listOf, type Mapping, resourcesOf } from '../../../src/records/mapping.ts';
import { openTestPglite, type TestDatabase } from '../../support/databases.ts';
import { type Changes, describedFor } from '../../support/described.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';

/** An org that can be unavailable, and replicas that watch it over one database. */
class WatchedOrg {
  calls = 0;
  isUnavailable = false;
  changes: Changes = { Budget__c: { type: 'currency', precision: 10, scale: 2 } };
  readonly #name = randomUUID();
  readonly #opened = new AsyncDisposableStack();
  readonly #database: TestDatabase['replicas'][0];

  constructor({ replicas }: TestDatabase) {
    this.#database = replicas[0];
  }

  async addReplica() {
    const add = { budget: { field: 'Budget__c', access: 'write' } };
    const resources = resourcesOf({ version: 1, resources: { quote: { add } } } as Mapping);
    const { log, lines } = recordLog();
    const send = async () => {
      this.calls += 1;
      if (this.isUnavailable) throw new Error('the org is unavailable');
      const bodies = listOf(resources).map((one) =>
        describedFor(one, one.name === 'quote' ? this.changes : {}),
      );
      const compositeResponse = bodies.map((body) => ({ httpStatusCode: 200, body }));
      return { status: 200, headers: {}, body: { compositeResponse } };
    };
    const client = { dataPath: '/services/data/v68.0', send };
    const schema = new OrgSchema({ resources, client, columnsOf: createColumns(), log });
    const lock = `org-schema:${this.#name}`;
    const watch = new OrgWatch({
      ...{ schema, log, metrics: createMetrics(orgSchemaMetrics) },
      table: new DescribedObjectsTable(this.#database, this.#name),
      // Shorter than in the service.
      lease: async () => (await leaseLock(this.#database, lock, randomUUID(), 0.5)) !== undefined,
      askedBefore: async () => undefined,
    });
    this.#opened.defer(() => watch.stop());
    await watch.start();
    return { budget: resources.quote.fields['budget'], fit: resources.quote.fit, schema, watch, lines };
  }

  stop(): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  await eventually(() => assert.ok(isTrue()));
}

describe('what is known of the org', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestPglite();
  });
  after(() => database.stop());

  it('is asked for once, and the same on all replicas', async () => {
    const org = new WatchedOrg(database);
    const replicas = [await org.addReplica(), await org.addReplica()];
    await until(() => replicas.every(({ budget }) => budget?.kind === 'number'));
    const [first, second] = replicas as [(typeof replicas)[0], (typeof replicas)[0]];
    const before = org.calls;
    assert.ok(before <= 2);
    org.changes = { Budget__c: null };
    // Many requests that are refused at once.
    for (let index = 0; index < 20; index++) first.fit.refusal({ column: 'X__c', problem: 'x', needs: [] });
    await until(() => second.schema.faults.length === 1);
    assert.ok(org.calls <= before + 2);
    assert.equal(second.budget?.kind, 'unknown');
    assert.deepEqual(first.schema.faults, second.schema.faults);
    await org.stop();
  });

  it('is kept for a start while the org is unavailable, which goes on asking', async () => {
    const org = new WatchedOrg(database);
    const first = await org.addReplica();
    await until(() => first.budget?.kind === 'number');
    org.isUnavailable = true;
    const second = await org.addReplica();
    assert.equal(second.budget?.kind, 'number');
    const calls = org.calls;
    org.changes = { Budget__c: { type: 'date' } };
    await until(() => org.calls > calls);
    org.isUnavailable = false;
    await until(() => second.budget?.kind === 'date' && first.budget?.kind === 'date');
    await org.stop();
  });
});
