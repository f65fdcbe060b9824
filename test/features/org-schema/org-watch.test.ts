import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { OrgSchema } from '../../../src/crm/org-schema.ts';
import { createColumns } from '../../../src/crm/usable-columns.ts';
import { DescribedObjectsTable } from '../../../src/features/org-schema/described-objects-table.ts';
import { OrgWatch, orgSchemaMetrics } from '../../../src/features/org-schema/org-watch.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { endLeases, leasedFor, leaseLock } from '../../../src/platform/store/database-locks.ts';
import { listOf, type Mapping, resourcesOf } from '../../../src/records/mapping.ts';
import { openTestPglite, type TestDatabase } from '../../support/databases.ts';
import { type Changes, describedFor } from '../../support/described.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';

/** An org that can be unavailable, and replicas that watch it over one database. */
class WatchedOrg {
  calls = 0;
  isUnavailable = false;
  held: Promise<void> | undefined;
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
      await this.held;
      return { status: 200, headers: {}, body: { compositeResponse } };
    };
    const client = { dataPath: '/services/data/v68.0', send };
    const schema = new OrgSchema({
      ...{ resources, client, log },
      columnsOf: createColumns(),
      userId: async () => undefined,
    });
    const lock = `org-schema:${this.#name}`;
    const watch = new OrgWatch({
      ...{ schema, log, metrics: createMetrics(orgSchemaMetrics) },
      table: new DescribedObjectsTable(this.#database, this.#name),
      // Shorter than in the service.
      lease: async () => (await leaseLock(this.#database, lock, randomUUID(), 0.5)) !== undefined,
      askedBefore: async (about, seconds) => {
        const name = `${lock}:${about} (${seconds} s)`;
        const isNew = (await leaseLock(this.#database, name, randomUUID(), seconds)) !== undefined;
        return isNew ? undefined : seconds - (await leasedFor(this.#database, name));
      },
      forgetAsked: () => endLeases(this.#database, `${lock}:`),
    });
    this.#opened.defer(() => watch.stop());
    await watch.start();
    return { budget: resources.quote.fields['budget'], fit: resources.quote.fit, schema, watch, lines };
  }

  /** As if the last look had been so many seconds earlier. */
  async age(seconds: number): Promise<void> {
    await sql`update described_objects set described_at = described_at - make_interval(secs => ${seconds})
      where org = ${this.#name}`.execute(this.#database.sql);
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

  it('is asked for once, and the same on all replicas', async (test) => {
    const org = new WatchedOrg(database);
    test.after(() => org.stop());
    const replicas = [await org.addReplica(), await org.addReplica()];
    await until(() => replicas.every(({ budget }) => budget?.kind === 'number'));
    const [first, second] = replicas as [(typeof replicas)[0], (typeof replicas)[0]];
    const before = org.calls;
    assert.ok(before <= 2);
    org.changes = { Budget__c: null };
    // Many requests that are refused at once.
    for (let index = 0; index < 20; index++)
      first.fit.refusal({ kind: 'mismatch', column: 'X__c', problem: 'x', needs: [] });
    await until(() => second.schema.faults.length === 1);
    assert.ok(org.calls <= before + 2);
    assert.equal(second.budget?.kind, 'unknown');
    assert.deepEqual(first.schema.faults, second.schema.faults);
  });

  it('is asked for once because of the same refusal, for all replicas, whose requests wait for it', async (test) => {
    const org = new WatchedOrg(database);
    test.after(() => org.stop());
    const [first, second] = [await org.addReplica(), await org.addReplica()];
    await until(() => [first, second].every(({ budget }) => budget?.kind === 'number'));
    const refusal = { about: 'REQUIRED_FIELD_MISSING budget__c', waitMs: 5000 };
    org.changes = { Budget__c: { type: 'date' } };
    const before = org.calls;
    const waiting = [first, second, first, second].map(({ fit }) => fit.onRefused(refusal));
    assert.ok((await Promise.all(waiting)).includes(true));
    assert.deepEqual([first.budget?.kind, second.budget?.kind], ['date', 'date']);
    const looked = org.calls;
    assert.ok(looked <= before + 2);
    for (const { fit } of [first, second, first]) assert.equal(await fit.onRefused(refusal), false);
    assert.equal(org.calls, looked);
    // Another one does not wait for those five minutes.
    assert.equal(await second.fit.onRefused({ ...refusal, about: 'STRING_TOO_LONG' }), true);
    assert.equal(org.calls, looked + 1);
  });

  it('is asked for again because of a refusal that reads the same, once what was lacking was there', async (test) => {
    const org = new WatchedOrg(database);
    test.after(() => org.stop());
    const [first, second] = [await org.addReplica(), await org.addReplica()];
    await until(() => [first, second].every(({ budget }) => budget?.kind === 'number'));
    const refusal = { about: 'JSON_PARSER_ERROR', waitMs: 5000 };
    const whole = org.changes;
    for (const { fit, schema } of [first, second]) {
      org.changes = { Budget__c: null };
      await fit.onRefused(refusal);
      await until(() => schema.faults.length === 1);
      org.changes = whole;
      await org.age(60);
      await until(() => [first, second].every((replica) => replica.schema.faults.length === 0));
    }
  });

  it('is what the last look has found, though one that began earlier may end later', async (test) => {
    const org = new WatchedOrg(database);
    test.after(() => org.stop());
    const first = await org.addReplica();
    await until(() => first.budget?.kind === 'number');
    const before = org.calls;
    const { promise, resolve } = Promise.withResolvers<void>();
    org.held = promise;
    const slow = first.fit.onRefused({ about: 'FIELD_INTEGRITY_EXCEPTION', waitMs: 5000 });
    await until(() => org.calls === before + 1);
    org.held = undefined;
    org.changes = { Budget__c: null };
    const second = await org.addReplica();
    await until(() => second.schema.faults.length === 1);
    resolve();
    await slow;
    await until(() => first.schema.faults.length === 1);
    assert.equal((await org.addReplica()).schema.faults.length, 1);
  });

  it('is asked for each minute while something is lacking, so that the list empties by itself', async (test) => {
    const org = new WatchedOrg(database);
    test.after(() => org.stop());
    const replica = await org.addReplica();
    await until(() => replica.budget?.kind === 'number');
    org.changes = { Budget__c: null };
    await replica.fit.onRefused({ about: 'INVALID_FIELD budget__c', waitMs: 5000 });
    assert.equal(replica.schema.faults.length, 1);
    org.changes = { Budget__c: { type: 'currency', precision: 10, scale: 2 } };
    const before = org.calls;
    await org.age(60);
    await until(() => replica.schema.faults.length === 0);
    assert.equal(org.calls, before + 1);
    await org.age(3600);
    // The next check of the table takes what is stored, and asks nobody.
    await sleep(2500);
    assert.equal(org.calls, before + 1);
  });

  it('is kept for a start while the org is unavailable, which goes on asking', async (test) => {
    const org = new WatchedOrg(database);
    test.after(() => org.stop());
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
  });
});
