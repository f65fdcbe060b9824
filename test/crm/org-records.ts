import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import type { Resources } from '../../src/records/mapping.ts';
import type { FieldValues, StoredRecord } from '../../src/records/records.ts';
import type { Resource } from '../../src/records/resource.ts';
import { aCall, aList, type CrmHarness, hasCode, quoteFor, total } from './crm-harness.ts';

export interface OrgUnderTest {
  harness: CrmHarness;
  resources: Resources;
  /** By name of a resource, further columns without which its org takes no record. */
  required: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Writes raw records, as somebody in the org does; values by the API's names. */
export function insertInto(
  { harness, required }: OrgUnderTest,
  resource: Resource,
  rows: readonly FieldValues[],
): Promise<string[]> {
  const toRow = (values: FieldValues) => ({
    ...required[resource.name],
    ...Object.fromEntries(
      Object.entries(values).map(([name, value]) => [resource.fields[name]?.crm.path, value]),
    ),
  });
  return harness.org.insert(resource.crmObject, rows.map(toRow));
}

/** What only the records of an org can have: content of other systems, and pages of its own size. */
export function orgRecords(open: () => OrgUnderTest): void {
  const records = () => open().harness.crm.records;
  const quote = (): Resource => open().resources.quote;
  const booking = (): Resource => open().resources.booking;
  const member = (): Resource => open().resources.member;
  const insert = (resource: Resource, rows: readonly FieldValues[]) => insertInto(open(), resource, rows);

  it('names nobody as the maker of what the service makes for itself, and measures how long the CRM took', async () => {
    const { harness } = open();
    const id = randomUUID();
    const call = aCall();
    await records().create(quote(), id, quoteFor(harness.memberId), call);
    assert.ok(call.crmMs > 0);
    const values = (await records().find(quote(), id, aCall()))?.values;
    for (const name of ['consumer_id', 'consumer_name', 'actor']) assert.equal(values?.[name], null);
    assert.equal((await harness.org.records(quote().crmObject)).length, 1);
  });

  it('finds nothing where the External ID is no UUID', async () => {
    await insert(member(), [{ last_name: 'Legacy', id: 'LEGACY-1' }]);
    assert.equal(await records().find(member(), 'LEGACY-1', aCall()), undefined);
  });

  it('finds the newest of the deleted records with one External ID', async () => {
    const id = randomUUID();
    for (const year of [2025, 2026, 2024]) {
      await insert(quote(), [
        { id, name: 'Row', source: 'x', created_at: `${year}-03-01T10:00:00.000+0000` },
      ]);
      const made = await records().find(quote(), id, aCall());
      await records().remove(quote(), made as StoredRecord, aCall());
    }
    const found = await records().findWithDeleted(quote(), id, aCall());
    const [together] = await records().findTogether([{ resource: quote(), externalId: id }], aCall());
    for (const record of [found, together])
      assert.equal(record?.values['created_at'], '2026-03-01T10:00:00.000Z');
  });

  it('shows members, with null where the CRM has none, and External IDs in lower case', async () => {
    const upper = randomUUID().toUpperCase();
    await insert(member(), [{ last_name: 'Upper', id: upper }]);
    const found = await records().find(member(), upper.toLowerCase(), aCall());
    assert.equal(found?.values['id'], upper.toLowerCase());
    assert.equal(found?.values['email'], null);
  });

  it('shows null for content that is not of its type, and counts it', async () => {
    const { metrics } = open().harness;
    const id = randomUUID();
    await insert(quote(), [{ id, name: 'By hand', source: 'x', trip_id: 'trip 7', details: '[1,2' }]);
    const before = await total(metrics, 'handoff_crm_unreadable_fields_total');
    const values = (await records().find(quote(), id, aCall()))?.values;
    assert.equal(values?.['trip_id'], null);
    assert.equal(values?.['details'], null);
    assert.equal(values?.['member_id'], null);
    assert.equal(values?.['name'], 'By hand');
    assert.equal(await total(metrics, 'handoff_crm_unreadable_fields_total'), before + 2);
  });

  it('reads on where the CRM gives fewer rows than it was asked for', async () => {
    const { org } = open().harness;
    const trip_id = randomUUID();
    const ids = Array.from({ length: 40 }, () => randomUUID());
    const strangers = Array.from({ length: 60 }, (_, index) => `LEGACY-${index}`);
    await insert(
      booking(),
      [...ids, ...strangers].map((id) => ({ id, name: 'Row', source: 'x', trip_id })),
    );
    await org.configure({ maxPageSize: 3 });
    try {
      const page = await records().list(booking(), aList({ filters: { trip_id }, limit: 40 }), aCall());
      assert.deepEqual(page.records.map(({ id }) => id).toSorted(), ids.toSorted());
    } finally {
      await org.configure({ maxPageSize: 2000 });
    }
  });

  it('gives up in words, and with no wrong page, where nearly all records are strangers', async () => {
    const { org } = open().harness;
    const trip_id = randomUUID();
    const strangers = Array.from({ length: 100 }, () => `${randomUUID().slice(0, -1)}x`);
    const created_at = '2026-03-01T10:00:00.000+0000';
    await insert(
      quote(),
      strangers.map((id) => ({ id, name: 'Row', source: 'x', trip_id, created_at })),
    );
    await org.configure({ maxPageSize: 1 });
    try {
      const list = records().list(quote(), aList({ filters: { trip_id } }), aCall());
      await assert.rejects(list, hasCode('crm_error'));
    } finally {
      await org.configure({ maxPageSize: 2000 });
    }
  });
}
