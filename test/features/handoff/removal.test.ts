import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { HandoffDelivery } from '../../../src/features/handoff/handoff-delivery.ts';
import { HandoffsTable } from '../../../src/features/handoff/handoffs-table.ts';
import { makeConsumerId } from '../../../src/identity/consumers/credentials.ts';
import { type Call, type Mode, remainingMs } from '../../../src/platform/base/call.ts';
import { now } from '../../../src/platform/base/chance.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { resourcesOf } from '../../../src/records/mapping.ts';
import type { Records } from '../../../src/records/records.ts';
import { useTestDatabase } from '../../support/databases.ts';
import { lateAnswers } from '../../support/late-answers.ts';
import { recordLog } from '../../support/log.ts';

describe('the record of a hand-off that has ended', () => {
  const opened = useTestDatabase();
  let database: Database;
  before(async () => {
    [database] = opened.replicas;
  });

  interface NewRow {
    consumerId?: string;
    status?: string;
    /** Since it ended. */
    seconds?: number;
    reference?: string;
    /** Whether its item had a record before the first call; by default nobody has looked. */
    hadRecord?: boolean;
  }
  /** One that may have a record. */
  async function add({
    consumerId = makeConsumerId(),
    status = 'cancelled',
    seconds = 0,
    reference,
    hadRecord,
  }: NewRow) {
    const externalId = randomUUID();
    const isOpen = status === 'accepted';
    await sql`
      insert into handoffs (external_id, type, status, consumer_id, request_id, trip_id, member_id, name, source, details,
        reference, had_record, may_exist, fence, lease_until, due_at, accepted_at, completed_at)
      values (${externalId}, 'quote', ${status}, ${consumerId}, 'r', ${randomUUID()}, ${randomUUID()}, 'n', 's', '{}',
        ${reference ?? null}, ${hadRecord ?? null}, true,
        1, to_timestamp(0), now(), now(), ${isOpen ? null : sql`now() - make_interval(secs => ${seconds})`})`.execute(
      database.sql,
    );
    return externalId;
  }
  const stateOf = async (externalId: string) => {
    const { rows } = await sql<{ status: string; native_id: string | null; may_exist: boolean }>`
      select status, native_id, may_exist from handoffs where external_id = ${externalId}`.execute(
      database.sql,
    );
    return rows[0];
  };

  /** A CRM with a record that is so many minutes old, and what it was asked for in time. */
  function crmWith(id?: string, minutes = 0) {
    const made = new Set(id === undefined ? [] : [id]);
    const values = { created_at: new Date(Date.now() - minutes * 60_000).toISOString() };
    const calls: { what: string; externalId: string; consumerId: string | undefined }[] = [];
    const note = (what: string, externalId: string, call: Call) => {
      if (remainingMs(call) === 0) throw new Problem('crm_timeout', 'No time was left.');
      calls.push({ what, externalId, consumerId: call.consumerId });
      return made.has(externalId) ? { nativeId: externalId, values } : undefined;
    };
    const records = {
      find: async (_: unknown, id: string, call: Call) => note('find', id, call),
      create: async (_: unknown, id: string, _values: unknown, call: Call) => {
        note('create', id, call);
        made.add(id);
        return { nativeId: id };
      },
      remove: async (_: unknown, { nativeId: id }: { nativeId: string }, call: Call) => {
        note('remove', id, call);
        made.delete(id);
      },
    };
    return { calls, made, records: records as unknown as Records };
  }

  /** Delivers all that is due. */
  async function deliver(records: Records, mode: Mode = 'live', seen = database): Promise<void> {
    const table = new HandoffsTable(seen, mode);
    const delivery = new HandoffDelivery({
      ...{ records, table, batchMs: 1000, log: recordLog().log },
      noteRecord: async () => true,
      leaseOf: () => ({
        take: async () => undefined,
        end: async () => undefined,
        endAfter: async () => true,
      }),
      rememberBefore: async () => true,
      resources: resourcesOf(),
      lease: async () => ({ deadline: now() + 60_000 }),
      settle: async (settled) => void (await table.settle(settled, () => undefined)),
      visibleTo: () => 'all',
    });
    await delivery.run(new AbortController().signal);
    await delivery.stop();
  }

  it('is looked for by the delivery of its mode, and that of a test consumer in its world', async () => {
    const [live, test] = [makeConsumerId(), makeConsumerId('test')];
    const ofLive = await add({ consumerId: live });
    const ofTest = await add({ consumerId: test });
    const crm = crmWith();
    await deliver(crm.records, 'test');
    await deliver(crm.records, 'live');
    assert.deepEqual(crm.calls, [
      { what: 'find', externalId: ofTest, consumerId: test },
      { what: 'find', externalId: ofLive, consumerId: undefined },
    ]);
  });

  it('is removed where it was cancelled or rejected; one that failed is created', async () => {
    for (const status of ['cancelled', 'rejected', 'failed']) {
      const id = await add({ status });
      const crm = crmWith(id);
      await deliver(crm.records);
      const isFailed = status === 'failed';
      assert.equal(crm.made.has(id), isFailed, status);
      const { native_id, ...state } = (await stateOf(id)) as NonNullable<Awaited<ReturnType<typeof stateOf>>>;
      assert.deepEqual(
        [state.status, native_id, state.may_exist],
        isFailed ? ['created', id, false] : [status, null, true],
      );
    }
  });

  it('is left as it is where the item had it before', async () => {
    for (const status of ['cancelled', 'rejected', 'failed']) {
      const id = await add({ status, reference: 'offer-1', seconds: 130 });
      const crm = crmWith(id, 10);
      await deliver(crm.records);
      assert.ok(crm.made.has(id), status);
      assert.deepEqual(await stateOf(id), { status, native_id: null, may_exist: false });
      const again = await add({ status, reference: 'offer-1' });
      const own = crmWith(again);
      await deliver(own.records);
      assert.equal(own.made.has(again), status === 'failed');
    }
  });

  it('is left as it is where the item was known to have it, however soon before, and removed where it had none', async () => {
    for (const [hadRecord, minutes] of [
      [true, 0],
      [false, 10],
    ] as const) {
      const id = await add({ reference: 'offer-1', hadRecord });
      const crm = crmWith(id, minutes);
      await deliver(crm.records);
      assert.equal(crm.made.has(id), hadRecord);
    }
  });

  it('is looked for until no call can make it any more', async () => {
    const crm = crmWith();
    for (const seconds of [0, 100, 130]) {
      const id = await add({ status: 'failed', seconds });
      await deliver(crm.records);
      assert.deepEqual(await stateOf(id), { status: 'failed', native_id: null, may_exist: seconds < 120 });
    }
  });

  it('is left alone by a process that stood still for longer than its lease', async () => {
    const late = lateAnswers(database, 'skip locked', 31_000);
    const ended = await add({});
    const open = await add({ status: 'accepted' });
    const crm = crmWith(ended);
    await deliver(crm.records, 'live', late);
    assert.deepEqual([crm.calls, [...crm.made]], [[], [ended]]);
    assert.equal((await stateOf(open))?.status, 'accepted');
  });
});
