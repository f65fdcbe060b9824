import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Described, describeObjects } from '../../src/crm/describe.ts';
import { OrgSchema } from '../../src/crm/org-schema.ts';
import { createColumns } from '../../src/crm/usable-columns.ts';
import { startCall } from '../../src/platform/base/call.ts';
import { listOf, type Mapping, resourcesOf } from '../../src/records/mapping.ts';
import { type Changes, describedFor } from '../support/described.ts';
import { recordLog } from '../support/log.ts';

const added = {
  text: { type: 'string', length: 20 },
  note: { type: 'textarea', length: 4000, filterable: false },
  money: { type: 'currency', precision: 12, scale: 2 },
  count: { type: 'int', digits: 8 },
  flag: { type: 'boolean', nillable: false, defaultedOnCreate: true },
  day: { type: 'date' },
  moment: { type: 'datetime' },
  one: { type: 'picklist', restrictedPicklist: true, picklistValues: picks('a', 'b') },
  free: { type: 'picklist', length: 40, picklistValues: picks('a') },
  many: { type: 'multipicklist', restrictedPicklist: true, picklistValues: picks('a', 'b') },
  place: { type: 'location' },
};

function picks(...values: string[]) {
  return [...values.map((value) => ({ value, active: true })), { value: 'old', active: false }];
}

const addedColumns: Changes = Object.fromEntries(
  Object.entries(added).map(([name, field]) => [`${name}__c`, field]),
);

/** A mapping with a field of every type, and what is known of it once the org was described with these changes. */
async function look(
  changes: Changes = {},
  {
    recordTypes = [],
    quote: more = {},
    object = {},
    rights,
  }: { recordTypes?: object[]; quote?: object; object?: object; rights?: readonly object[] } = {},
) {
  const add = Object.fromEntries(
    Object.keys(added).map((name) => [
      name,
      { field: `${name}__c`, access: 'write' as const, filter: name !== 'note' },
    ]),
  );
  const mapping = { version: 1, resources: { quote: { add, ...more } } } as Mapping;
  const resources = resourcesOf(mapping);
  const bodies = listOf(resources).map((resource) =>
    resource.name === 'quote'
      ? {
          ...describedFor(resource, { ...addedColumns, ...changes }),
          recordTypeInfos: recordTypes,
          ...object,
        }
      : describedFor(resource),
  );
  const { log, lines } = recordLog();
  const client = {
    dataPath: '/services/data/v68.0',
    send: async () => ({
      ...{ status: 200, headers: {} },
      body: {
        compositeResponse: [...bodies, ...(rights ? [{ records: rights }] : [])].map((body) => ({
          ...{ httpStatusCode: 200, body },
        })),
      },
    }),
  };
  const schema = new OrgSchema({
    ...{ resources, client, log },
    columnsOf: createColumns(),
    userId: async () => (rights ? '005000000000001AAA' : undefined),
  });
  schema.apply(await schema.describe(startCall('test')));
  const faults = schema.faults.map(({ object, field, problem }) => `${object}.${field} ${problem}`);
  return { resources, schema, lines, faults: faults.filter((fault) => !fault.includes('place__c')) };
}

describe('the description of an object', () => {
  it('gives the types of the fields that a mapping adds', async () => {
    const { resources, schema, faults } = await look();
    assert.deepEqual(faults, []);
    const types = Object.fromEntries(
      Object.entries(resources.quote.fields).flatMap(([name, { added: own }]) =>
        own ? [[name, own.type]] : [],
      ),
    );
    assert.deepEqual(types, {
      text: { kind: 'text', maxLength: 20 },
      note: { kind: 'text', maxLength: 4000 },
      money: { kind: 'number', whole: 10, decimals: 2 },
      count: { kind: 'number', whole: 8, decimals: 0 },
      flag: { kind: 'boolean' },
      day: { kind: 'date' },
      moment: { kind: 'timestamp' },
      one: { kind: 'choice', values: ['a', 'b'] },
      free: { kind: 'text', maxLength: 40 },
      many: { kind: 'choices', values: ['a', 'b'] },
      place: undefined,
    });
    assert.deepEqual([...schema.numberColumns].sort(), ['count__c', 'money__c']);
    assert.deepEqual(schema.faults, [
      {
        ...{ object: 'Quote__c', field: 'place__c' },
        problem: "has the type location, which the API doesn't support",
      },
    ]);
    assert.deepEqual([...resources.quote.fit.hidden], ['place']);
  });

  for (const [what, changes, fault, needs] of [
    [
      'a field that is not there',
      { Name__c: null },
      "Name__c doesn't exist, or the integration user can't see it",
      ['read', 'write'],
    ],
    [
      'one that may not be written',
      { Name__c: { updateable: false } },
      "Name__c can't be written by the integration user",
      ['write'],
    ],
    [
      'a name in another case, which rows of the CRM do not have',
      { Name__c: { name: 'NAME__c' } },
      'Name__c is called NAME__c in Salesforce; spell it that way in the mapping',
      ['read', 'write'],
    ],
    [
      'a relationship in another case',
      { Member__c: { relationshipName: 'member__r' } },
      'Member__c is called member__r in Salesforce; spell it that way in the mapping',
      ['read'],
    ],
    [
      'a further column of details in another case',
      { Details_3__c: { name: 'details_3__c' } },
      'Details_3__c is called details_3__c in Salesforce; spell it that way in the mapping',
      [],
    ],
    [
      'a number for a text',
      { Source__c: { type: 'double' } },
      'Source__c has the type double, but must be string or textarea',
      ['read'],
    ],
    [
      'a key that is not unique',
      { External_Id__c: { unique: false } },
      "External_Id__c isn't unique",
      ['read'],
    ],
    [
      'a key that is no external ID',
      { External_Id__c: { externalId: false } },
      "External_Id__c isn't an external ID",
      ['read'],
    ],
    [
      'a key that is too short',
      { External_Id__c: { length: 18 } },
      'External_Id__c holds 18 characters, but needs 36',
      ['write'],
    ],
    [
      'an id of the CRM, which no answer may show',
      { Source__c: { type: 'reference' } },
      'Source__c has the type reference, but must be string or textarea',
      ['read'],
    ],
    [
      'a lookup to another object',
      { Member__c: { referenceTo: ['Account'] } },
      'Member__c points to Account, not to Contact',
      ['read'],
    ],
    [
      'a lookup to several objects, in which no external ID is taken',
      { Member__c: { referenceTo: ['Account', 'Contact'] } },
      'Member__c points to several objects (Account, Contact), so Salesforce takes no external ID for it; it must be a lookup to Contact alone',
      ['read'],
    ],
    [
      'a trip in a picklist that lists its values',
      { Trip_Id__c: { ...added.one, length: 255 } },
      'Trip_Id__c is a restricted picklist, but must take any text',
      ['write'],
    ],
    [
      'a trip in an e-mail address',
      { Trip_Id__c: { type: 'email', length: 80 } },
      'Trip_Id__c has the type email, but must be string or textarea',
      ['read', 'write'],
    ],
    [
      'a consumer in an e-mail address',
      { Consumer_Id__c: { type: 'email', length: 80 } },
      'Consumer_Id__c has the type email, but must be string or textarea',
      [],
    ],
    [
      'an actor in a picklist that lists its values',
      { Actor__c: { ...added.one, length: 255 } },
      'Actor__c is a restricted picklist, but must take any text',
      [],
    ],
    [
      'details in a short text',
      { Details__c: { type: 'string', length: 40 } },
      'Details__c holds 40 characters, but must be a long text',
      [],
    ],
    [
      'details in a text area that is not long',
      { Details__c: { length: 255 } },
      'Details__c holds 255 characters, but must be a long text',
      [],
    ],
    [
      'a further column of details that is short',
      { Details_3__c: { type: 'string', length: 40 } },
      'Details_3__c holds 40 characters, but must be a long text',
      [],
    ],
    [
      'a name that Salesforce counts by itself',
      { Name__c: { createable: false, updateable: false, autoNumber: true } },
      'Name__c is an auto-number, which nobody can write',
      ['write'],
    ],
    [
      'a formula for a text',
      { text__c: { createable: false, updateable: false, calculated: true } },
      'text__c is a formula, which nobody can write',
      ['write'],
    ],
    [
      'a lookup by another name',
      { Member__c: { relationshipName: 'Guest__r' } },
      'Member__c has the relationship Guest__r, not Member__r',
      ['read'],
    ],
    [
      'a status without our value',
      { Status__c: { ...added.one } },
      "Status__c doesn't accept the value created, which new records get",
      ['write'],
    ],
    [
      'a filter that is none',
      { text__c: { filterable: false } },
      "text__c can't be used in filters",
      ['filter'],
    ],
    [
      'a required field that nothing sets',
      { Must__c: { nillable: false } },
      "Must__c is required in new records, but the mapping doesn't set it",
      ['create'],
    ],
    [
      'an optional column that is not there',
      { Actor__c: null },
      "Actor__c doesn't exist, or the integration user can't see it",
      [],
    ],
    [
      'a further column of details',
      { Details_3__c: null },
      "Details_3__c doesn't exist, or the integration user can't see it",
      [],
    ],
  ] as [string, Changes, string, string[]][]) {
    it(`reports ${what}`, async () => {
      const { faults, resources, lines } = await look(changes);
      assert.deepEqual(faults, [`Quote__c.${fault}`]);
      const { fit, fields } = resources.quote;
      const column = fault.split(' ')[0] ?? '';
      const name = Object.keys(fields).find((one) => {
        const { path, lookupColumn, continuations = [] } = fields[one]?.crm ?? { path: '' };
        return [path, lookupColumn, ...continuations].includes(column);
      });
      for (const need of ['read', 'write', 'filter'] as const) {
        const isNeeded = name !== undefined && fit.why(need, name) !== undefined;
        if (needs.includes(need)) assert.ok(isNeeded, need);
        if (needs.length === 0) assert.ok(!isNeeded);
      }
      assert.equal(fit.whyRefused('create', [column])?.column, column);
      assert.ok(lines.some((line) => line.facts['field'] === column));
    });
  }

  it('takes a trip in an open picklist, and keeps the size of long texts beside a short one', async () => {
    const { faults } = await look({
      Trip_Id__c: { type: 'picklist', length: 255, restrictedPicklist: false },
    });
    assert.deepEqual(faults, []);
    const { resources } = await look({ Details_3__c: { type: 'string', length: 40 } });
    assert.equal(resources.quote.fields['details']?.columns?.size, 131_072);
  });

  it('says which objects the user may not delete, and sees only in part', async () => {
    const right = (SobjectType: string, PermissionsViewAllRecords: boolean) => ({
      ...{ SobjectType, PermissionsViewAllRecords },
    });
    const rights = [
      ...[right('Contact', false), right('quote__c', false), right('Quote__c', true)],
      ...[right('Booking__c', false), right('Booking__c', false)],
    ];
    const { faults, resources } = await look({}, { object: { deletable: false }, rights });
    const unseen =
      "isn't fully visible: the integration user lacks View All Records, so it can't see others' records if the object is private";
    assert.deepEqual(faults, [
      `Contact.null ${unseen}`,
      "Quote__c.null can't be deleted by the integration user",
      `Booking__c.null ${unseen}`,
    ]);
    const { fit } = resources.quote;
    assert.ok(fit.whyRefused('delete', []));
    for (const need of ['read', 'write', 'create'] as const) {
      assert.equal(fit.whyRefused(need, []), undefined);
      assert.equal(resources.member.fit.why(need, 'email'), undefined);
    }
    assert.deepEqual((await look({}, { rights: [] })).faults, []);
  });

  it('takes a member that is set for good when a record is made', async () => {
    assert.deepEqual((await look({ Member__c: { updateable: false } })).faults, []);
  });

  it('needs no mapping for what the org fills in by itself', async () => {
    const { faults } = await look({
      Stamp__c: { nillable: false, createable: false },
      Auto__c: { nillable: false, defaultedOnCreate: true },
      Yes__c: { type: 'boolean', nillable: false },
    });
    assert.deepEqual(faults, []);
  });

  it('says which constants the org takes', async () => {
    const set = {
      Channel__c: 'Web',
      Region__c: 'North',
      flag__c: true,
      RecordTypeId: { recordType: 'Travel' },
    };
    const columns = {
      ...{ Channel__c: { ...added.one }, Region__c: { length: 3 }, flag__c: { type: 'boolean' } },
      RecordTypeId: { type: 'reference' },
    };
    const types = [
      { developerName: 'Travel', recordTypeId: '012000000000001AAA', available: true, active: true },
      { developerName: 'Old', recordTypeId: '012000000000002AAA', available: false, active: true },
    ];
    const { faults, resources } = await look(columns, { recordTypes: types, quote: { set } });
    assert.deepEqual(faults, [
      "Quote__c.Channel__c doesn't accept the constant Web",
      "Quote__c.Region__c doesn't accept the constant North",
    ]);
    assert.deepEqual([...resources.quote.fit.recordTypeIds], [['travel', '012000000000001AAA']]);
    const recordType = (name: string) => ({
      quote: { set: { RecordTypeId: { recordType: name } } },
      recordTypes: types,
    });
    assert.deepEqual((await look(columns, recordType('Old'))).faults, [
      "Quote__c.RecordTypeId has the record type Old, which the integration user can't use",
    ]);
    assert.deepEqual((await look(columns, recordType('New'))).faults, [
      'Quote__c.RecordTypeId has no record type New',
    ]);
  });

  it('bounds details by the columns that the mapping names', async () => {
    const { resources } = await look(
      { P__c: { type: 'textarea', length: 32_768 }, Q__c: { type: 'textarea', length: 20_000 } },
      { quote: { fields: { details: ['P__c', 'Q__c'] } } },
    );
    assert.deepEqual(resources.quote.fields['details']?.columns, { size: 20_000, count: 2 });
  });

  it('of another form than the documented one is refused', async () => {
    const answer = (parts: unknown[]) => ({
      dataPath: '/x',
      send: async () => ({ status: 200, headers: {}, body: { compositeResponse: parts } }),
    });
    const ask = (...parts: unknown[]): Promise<Described> =>
      describeObjects(answer(parts), ['Quote__c'], startCall('test'));
    await assert.rejects(ask(), /expected shape/);
    await assert.rejects(ask({ httpStatusCode: 200, body: 'x' }), /expected shape/);
    await assert.rejects(ask({ httpStatusCode: 500, body: [] }), /status 500/);
    assert.deepEqual([...(await ask({ httpStatusCode: 404, body: [] }))], [['quote__c', null]]);
  });
});
