import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { apiFieldOf, scrub } from '../../src/crm/mapping/names.ts';
import { createRowReader, toCrmFields } from '../../src/crm/mapping/records.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { member } from '../../src/records/members.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { total } from './crm-harness.ts';

const metrics = createMetrics();
const readQuote = createRowReader(quote, metrics);
const unreadable = () => total(metrics, 'handoff_crm_unreadable_fields_total');
const row = {
  attributes: { type: 'Quote__c', url: '/services/data/v68.0/sobjects/Quote__c/a00000000000001AAA' },
  Id: 'a00000000000001AAA',
  External_Id__c: '6F0B2A3C-1111-4222-8333-444455556666',
  Trip_Id__c: '7f0b2a3c-1111-4222-8333-444455556666',
  Member__r: { attributes: { type: 'Contact' }, External_Id__c: '8f0b2a3c-1111-4222-8333-444455556666' },
  Name__c: 'Hotel',
  Source__c: 'hotels',
  Details__c: '{"a": 12345678901234567890}',
  Status__c: 'created',
  Consumer_Id__c: 'con_1',
  CreatedDate: '2012-07-12T17:49:01.000+0000',
  LastModifiedDate: '2012-07-12T17:49:02.000+0000',
};

describe('from the CRM', () => {
  it('counts unreadable contents of every field from 0, so that an alert sees the first', async () => {
    const { values } = await metrics.crmUnreadableFields.get();
    const fields = Object.keys(quote.fields);
    assert.deepEqual(
      values,
      fields.map((field) => ({ labels: { resource: quote.name, field }, value: 0 })),
    );
  });

  it('shows a record in the API’s words', () => {
    assert.deepEqual(readQuote(row), {
      id: '6f0b2a3c-1111-4222-8333-444455556666',
      trip_id: '7f0b2a3c-1111-4222-8333-444455556666',
      member_id: '8f0b2a3c-1111-4222-8333-444455556666',
      name: 'Hotel',
      source: 'hotels',
      details: '{"a": 12345678901234567890}',
      status: 'created',
      consumer_id: 'con_1',
      consumer_name: null,
      actor: null,
      verified: null,
      created_at: '2012-07-12T17:49:01.000Z',
      updated_at: '2012-07-12T17:49:02.000Z',
    });
  });

  it('shows null for what is empty, and counts nothing', async () => {
    const before = await unreadable();
    const values = readQuote({ ...row, Member__r: null, Status__c: null, Name__c: '' });
    assert.deepEqual([values['member_id'], values['status'], values['name']], [null, null, null]);
    assert.equal(await unreadable(), before);
  });

  it('shows null for what is not of its type, and counts it', async () => {
    const odd: Record<string, unknown[]> = {
      Details__c: ['', '[]', '"x"', 'null', '{', '{"a":1}x', 7, {}],
      Trip_Id__c: ['trip', 7, '7f0b2a3c-1111-4222-8333-44445555666'],
      CreatedDate: ['2012-07-12', '2012-07-12T17:49:01.000+0100', '2012-99-12T17:49:01.000+0000', 7],
      Name__c: [7, true, {}],
    };
    for (const [column, contents] of Object.entries(odd)) {
      const field = apiFieldOf(quote, column) as string;
      for (const content of contents) {
        const before = await unreadable();
        assert.equal(readQuote({ ...row, [column]: content })[field], null);
        assert.equal(await unreadable(), before + (content === '' ? 0 : 1), `${column}: ${String(content)}`);
      }
    }
  });

  it('never fails, whatever a row holds', () => {
    const columns = fc.constantFrom(...Object.keys(row), '__proto__');
    fc.assert(fc.property(fc.dictionary(columns, fc.anything()), (wild) => void readQuote(wild)));
  });
});

describe('to the CRM', () => {
  it('puts a lookup under its relationship, by External ID, and empties it by its column', () => {
    const upper = '8F0B2A3C-1111-4222-8333-444455556666';
    assert.deepEqual(toCrmFields(quote, { id: upper, member_id: upper, name: 'X' }), {
      External_Id__c: upper.toLowerCase(),
      Member__r: { External_Id__c: upper.toLowerCase() },
      Name__c: 'X',
    });
    assert.deepEqual(toCrmFields(quote, { member_id: null, status: null }), {
      Member__c: null,
      Status__c: null,
    });
  });

  it('takes no field that the CRM sets, or that is not declared', () => {
    assert.throws(() => toCrmFields(quote, { created_at: '2012-07-12T17:49:01.000Z' }), RangeError);
    assert.throws(() => toCrmFields(quote, { colour: 'red' }), RangeError);
  });
});

describe('details that one column does not hold', () => {
  const continuations = [2, 3, 4, 5, 6, 7, 8].map((part) => `Details_${part}__c`);
  const details = `{"a":"${'x'.repeat(200_000)}"}`;

  it('go on in the next columns, and come back as one text', () => {
    const fields = toCrmFields(quote, { details });
    assert.deepEqual(
      Object.values(fields).map((part) => (part as string | null)?.length ?? 0),
      [131_072, 200_008 - 131_072, 0, 0, 0, 0, 0, 0],
    );
    assert.equal(readQuote({ ...row, ...fields })['details'], details);
    for (const column of continuations) assert.equal(apiFieldOf(quote, column), 'details');
  });

  it('are emptied of what a change leaves over', () => {
    const long = toCrmFields(quote, { details });
    const short = toCrmFields(quote, { details: '{}' });
    const none = toCrmFields(quote, { details: null });
    for (const fields of [long, short, none])
      assert.deepEqual(Object.keys(fields), ['Details__c', ...continuations]);
    assert.deepEqual(Object.values(short), ['{}', null, null, null, null, null, null, null]);
    assert.equal(readQuote({ ...row, ...long, ...short })['details'], '{}');
    assert.equal(readQuote({ ...row, ...long, ...none })['details'], null);
  });

  it('are unreadable where a part of them is missing or is no text', async () => {
    const fields = toCrmFields(quote, { details: `{"a":"${'x'.repeat(300_000)}"}` });
    for (const gap of [
      { Details__c: null },
      { Details_2__c: null },
      { Details_3__c: null },
      { Details_2__c: 7 },
    ]) {
      const before = await unreadable();
      assert.equal(readQuote({ ...row, ...fields, ...gap })['details'], null);
      assert.equal(await unreadable(), before + 1);
    }
  });
});

describe('names in errors', () => {
  it('knows a column in any case, and a lookup by both its names', () => {
    assert.equal(apiFieldOf(quote, 'NAME__C'), 'name');
    assert.equal(apiFieldOf(quote, 'Member__c'), 'member_id');
    assert.equal(apiFieldOf(quote, 'Member__r.External_Id__c'), 'member_id');
    assert.equal(apiFieldOf(quote, 'Other__c'), undefined);
  });

  it('lets no native id and no column through, and leaves words alone', () => {
    assert.equal(
      scrub(
        'Recommendations for a0Q8d000001abCDEAY, (003000000000001) and x_001A0000001BcDe: FirstName',
        member,
      ),
      'Recommendations for (id), ((id)) and x_(id): first_name',
    );
    const id = fc.stringMatching(/^a0[A-Za-z0-9]{13}([A-Za-z0-9]{3})?$/);
    fc.assert(
      fc.property(fc.string(), id, fc.string(), (before, native, after) => {
        assert.ok(!scrub(`${before} ${native} ${after}`, quote).includes(native));
      }),
    );
  });

  it('is bounded and one line', () => {
    assert.ok(scrub('word '.repeat(1000), quote).length <= 300);
    const long = scrub(`${'x'.repeat(299)}😀`, quote);
    assert.equal(long, 'x'.repeat(299), 'no half of a character at the end: the database refuses it');
    assert.equal(scrub('a\r\n\tb', undefined), 'a b');
    assert.doesNotMatch(scrub('<<b>script>x<</b>/script>', undefined), /<[/a-z]/);
  });
});
