import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import type { Problem } from '../../src/platform/base/problem.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import type { FieldValues, StoredRecord } from '../../src/records/records.ts';
import { newIds, startBatchingHarness } from './batching-harness.ts';
import { aCall, hasCode, quoteFor } from './crm-harness.ts';

const harness = await startBatchingHarness();
const { find, callsDuring } = harness;

const create = (id: string, values: FieldValues = {}) =>
  harness.crm.records.createAndRead(quote, id, quoteFor(harness.memberId, { name: id, ...values }), aCall());
const update = (record: StoredRecord, values: FieldValues) =>
  harness.crm.records.updateAndRead(quote, record, values, aCall());
const remove = (record: StoredRecord) => harness.crm.records.remove(quote, record, aCall());

async function existing(count: number): Promise<StoredRecord[]> {
  return (await Promise.all(newIds(count).map((id) => create(id)))) as StoredRecord[];
}

/** Keeps a call of this kind in flight, so that those that come meanwhile are batched. */
async function batched<T>(
  operation: string,
  one: () => Promise<unknown>,
  work: () => Promise<T>,
): Promise<T> {
  const hold = await harness.org.fault({ kind: 'hold' }, { operation }, 1);
  const first = one().catch(() => undefined);
  await harness.org.struck(hold);
  const result = await work();
  await harness.org.release(hold);
  await first;
  return result;
}

async function rowsOf(id: string): Promise<Record<string, unknown>[]> {
  return (await harness.org.records('Quote__c')).filter((row) => row['External_Id__c'] === id);
}

describe('creations', () => {
  it('one alone takes one call, which brings the record back', async () => {
    const id = randomUUID();
    let record: StoredRecord | undefined;
    const calls = await callsDuring(async () => {
      record = await create(id);
    });
    assert.equal(calls, 1);
    assert.deepEqual(record?.values, (await find(id))?.values);
    assert.ok(record?.values['created_at']);
  });

  it('in parallel they share few calls, and each gets its own record', async () => {
    await harness.org.configure({ latencyMs: 50 });
    const ids = newIds(60);
    const calls = await callsDuring(async () => {
      for (const [index, record] of (await Promise.all(ids.map((id) => create(id)))).entries())
        assert.equal(record?.values['name'], ids[index]);
    });
    assert.ok(calls <= 3, `${calls} calls for 60 creations`);
    assert.equal((await harness.org.counters()).rowsWritten, 60);
  });

  it('of two resources are never mixed up, and a hand-off does not pay for reading back', async () => {
    const ids = newIds(10);
    const refs = await Promise.all(
      ids.map((id) => harness.crm.records.create(booking, id, quoteFor(harness.memberId), aCall())),
    );
    const quotes = await Promise.all(ids.map((id) => create(id)));
    for (const [index, id] of ids.entries()) {
      const found = await harness.crm.records.find(booking, id, aCall());
      assert.equal(found?.nativeId, refs[index]?.nativeId);
      assert.notEqual(quotes[index]?.nativeId, found?.nativeId);
    }
  });

  it('one that the CRM refuses fails alone; one whose row is locked is late and no more', async () => {
    const ids = newIds(12);
    const [unknownMember = '', tooLong = '', locked = '', refused = ''] = ids;
    await harness.org.fault({ kind: 'lockRow' }, { recordKey: locked }, 1);
    const validation = {
      kind: 'recordError',
      errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION',
      message: 'No.',
    };
    await harness.org.fault(validation, { recordKey: refused });
    const outcomes = await batched(
      'create',
      () => create(randomUUID()),
      () =>
        Promise.allSettled(
          ids.map((id) => {
            if (id === unknownMember) return create(id, { member_id: randomUUID() });
            return create(id, id === tooLong ? { name: 'x'.repeat(300) } : {});
          }),
        ),
    );
    const codes = outcomes.map((outcome) =>
      outcome.status === 'fulfilled' ? outcome.value?.values['id'] : (outcome.reason as Problem).code,
    );
    const expected = ['member_not_found', 'crm_rejected', locked, 'crm_rejected', ...ids.slice(4)];
    assert.deepEqual(codes, expected);
    const { reason } = outcomes[1] as PromiseRejectedResult;
    assert.deepEqual((reason as Problem).facts.errors, [
      { pointer: '#/name', message: 'is longer than 255 characters.' },
    ]);
  });

  for (const kind of ['loseAnswer', 'reset', 'hang', 'lateAnswer']) {
    it(`after ${kind} each record is there once, and its caller has it`, async () => {
      if (kind === 'hang' || kind === 'lateAnswer') await harness.useShortTimeout();
      const ids = newIds(9);
      const effect = kind === 'lateAnswer' ? { kind, ms: 5000 } : { kind };
      await batched(
        'create',
        () => create(randomUUID()),
        async () => {
          await harness.org.fault(effect, { operation: 'createMany' }, 1);
          const records = await Promise.all(ids.map((id) => create(id)));
          assert.deepEqual(
            records.map((record) => record?.values['id']),
            ids,
          );
        },
      );
      for (const id of ids) assert.equal((await rowsOf(id)).length, 1);
    });
  }

  it('a record that spoils the whole call is found, and fails alone', async () => {
    const ids = newIds(9);
    const [bad = '', ...good] = ids;
    const effect = { kind: 'error', status: 400, errorCode: 'JSON_PARSER_ERROR', message: 'x' };
    await harness.org.fault(effect, { recordKey: bad });
    await batched(
      'create',
      () => create(randomUUID()),
      async () => {
        const refused = assert.rejects(create(bad), hasCode('crm_error'));
        const records = await Promise.all(good.map((id) => create(id)));
        assert.deepEqual(
          records.map((record) => record?.values['id']),
          good,
        );
        await refused;
      },
    );
  });

  it('with details of full length do not all fit one call', async () => {
    const ids = newIds(40);
    const details = JSON.stringify({ a: 'x'.repeat(131_000) });
    await batched(
      'create',
      () => create(randomUUID()),
      async () => {
        await harness.org.resetCounters();
        const records = await Promise.all(ids.map((id) => create(id, { details })));
        for (const record of records) assert.equal(record?.values['details'], details);
      },
    );
    assert.ok((await harness.org.counters()).metered >= 4);
  });

  it('that can not be read back in the same call are looked up', async () => {
    const fault = { kind: 'partError', errorCode: 'QUERY_TIMEOUT', message: 'x' };
    await harness.org.fault(fault, { operation: 'query' }, 1);
    const alone = randomUUID();
    assert.equal((await create(alone))?.values['id'], alone);
    await harness.org.fault(fault, { operation: 'query' }, 1);
    const ids = newIds(9);
    const records = await Promise.all(ids.map((id) => create(id)));
    assert.deepEqual(
      records.map((record) => record?.values['id']),
      ids,
    );
  });

  it('that can not be read back at all are shown as they were written', async () => {
    const broken = { kind: 'error', status: 400, errorCode: 'MALFORMED_QUERY', message: 'x' };
    await harness.org.fault(
      { kind: 'partError', errorCode: 'QUERY_TIMEOUT', message: 'x' },
      { operation: 'query' },
    );
    await harness.org.fault(broken, { operation: 'query' });
    const id = randomUUID();
    const made = await create(id);
    const rows = await rowsOf(id);
    assert.deepEqual(
      rows.map((row) => row['Id']),
      [made?.nativeId],
    );
  });

  it('of one External ID at once make one record, which all of them get', async () => {
    const id = randomUUID();
    const records = await Promise.all(Array.from({ length: 5 }, () => create(id)));
    assert.equal(new Set(records.map((record) => record?.nativeId)).size, 1);
    assert.equal((await rowsOf(id)).length, 1);
  });
});

describe('changes', () => {
  it('in parallel they share few calls, and each gets its own record as it is then', async () => {
    const records = await existing(40);
    await harness.org.configure({ latencyMs: 50 });
    const calls = await callsDuring(async () => {
      const changed = await Promise.all(records.map((record, n) => update(record, { name: `name ${n}` })));
      for (const [n, record] of changed.entries()) {
        assert.equal(record?.values['id'], records[n]?.values['id']);
        assert.equal(record?.values['name'], `name ${n}`);
      }
    });
    assert.ok(calls <= 3, `${calls} calls for 40 changes`);
  });

  it('of one record are done in their order', async () => {
    const [record] = (await existing(1)) as [StoredRecord];
    await harness.org.configure({ latencyMs: 5 });
    const names = ['one', 'two', 'three', 'four', 'five'];
    const changed = await Promise.all(names.map((name) => update(record, { name })));
    assert.deepEqual(
      changed.map((each) => each?.values['name']),
      names,
    );
    const [last] = await Promise.allSettled([update(record, { name: 'last' }), remove(record)]);
    assert.equal(last.status, 'fulfilled');
    assert.equal(await find(record.values['id'] ?? ''), undefined);
  });

  it('one of a record that is gone fails alone, with a member named or not', async () => {
    const records = await existing(10);
    const [gone, goneToo] = records as [StoredRecord, StoredRecord];
    await remove(gone);
    const never = { ...goneToo, nativeId: `${goneToo.nativeId.slice(0, 11)}zzzz` };
    const [other] = (await existing(1)) as [StoredRecord];
    await batched(
      'update',
      () => update(other, { name: 'first' }),
      async () => {
        const refused = [
          assert.rejects(update(gone, { name: 'x' }), hasCode('not_found')),
          assert.rejects(update(never, { name: 'x', member_id: harness.memberId }), hasCode('not_found')),
          assert.rejects(update(goneToo, { member_id: randomUUID() }), hasCode('member_not_found')),
        ];
        const changed = await Promise.all(records.slice(2).map((record) => update(record, { name: 'y' })));
        for (const record of changed) assert.equal(record?.values['name'], 'y');
        await Promise.all(refused);
      },
    );
  });

  for (const kind of ['loseAnswer', 'reset', 'hang']) {
    it(`after ${kind} each is done, since the CRM is looked at`, async () => {
      if (kind === 'hang') await harness.useShortTimeout();
      const records = await existing(9);
      const [other] = (await existing(1)) as [StoredRecord];
      await batched(
        'update',
        () => update(other, { name: 'first' }),
        async () => {
          await harness.org.fault({ kind }, { operation: 'updateMany' }, 1);
          const changed = await Promise.all(
            records.map((record, n) => update(record, { name: `name ${n}` })),
          );
          assert.deepEqual(
            changed.map((record) => record?.values['name']),
            records.map((_, n) => `name ${n}`),
          );
        },
      );
    });
  }

  it('one that somebody else overtook after a lost call keeps its outcome unknown; the others are done', async () => {
    await harness.useShortTimeout();
    const records = await existing(9);
    const [overtaken, ...others] = records as [StoredRecord, ...StoredRecord[]];
    const [other] = (await existing(1)) as [StoredRecord];
    await batched(
      'update',
      () => update(other, { name: 'first' }),
      async () => {
        const fault = await harness.org.fault({ kind: 'hang' }, { operation: 'updateMany' }, 1);
        const refused = assert.rejects(
          update(overtaken, { name: 'mine' }),
          hasCode('crm_timeout', { outcomeUnknown: true }),
        );
        const changes = others.map((record) => update(record, { name: 'mine' }));
        await harness.org.struck(fault);
        await harness.addReplica().crm.records.update(quote, overtaken, { name: 'theirs' }, aCall());
        for (const record of await Promise.all(changes)) assert.equal(record?.values['name'], 'mine');
        await refused;
      },
    );
    assert.equal((await find(overtaken.values['id'] ?? ''))?.values['name'], 'theirs');
  });

  it('one whose row is locked goes again by itself', async () => {
    const records = await existing(9);
    await harness.org.fault({ kind: 'lockRow' }, { recordKey: records[3]?.nativeId }, 2);
    const changed = await Promise.all(records.map((record) => update(record, { source: 'y' })));
    for (const record of changed) assert.equal(record?.values['source'], 'y');
  });
});

describe('deletions', () => {
  it('in parallel they share few calls; one of a record that is gone fails alone', async () => {
    const records = await existing(40);
    const [gone, ...others] = records as [StoredRecord, ...StoredRecord[]];
    await remove(gone);
    await harness.org.configure({ latencyMs: 50 });
    const calls = await callsDuring(async () => {
      const removals = others.map(remove);
      await assert.rejects(remove(gone), hasCode('not_found'));
      await Promise.all(removals);
    });
    assert.ok(calls <= 3, `${calls} calls for 40 deletions`);
    for (const record of others) assert.equal((await rowsOf(record.values['id'] ?? '')).length, 0);
  });

  for (const kind of ['loseAnswer', 'reset', 'hang']) {
    it(`after ${kind} each is done`, async () => {
      if (kind === 'hang') await harness.useShortTimeout();
      const records = await existing(9);
      const [other] = (await existing(1)) as [StoredRecord];
      await batched(
        'delete',
        () => remove(other),
        async () => {
          await harness.org.fault({ kind }, { operation: 'deleteMany' }, 1);
          await Promise.all(records.map(remove));
        },
      );
      for (const record of records) assert.equal((await rowsOf(record.values['id'] ?? '')).length, 0);
    });
  }
});
