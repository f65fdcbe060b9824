import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { resourcesOf } from '../../../src/records/mapping.ts';
import type { Resource } from '../../../src/records/resource.ts';
import { type Parsed, startOrg, type TestOrg } from './org.ts';

let org: TestOrg;

before(async () => {
  org = await startOrg({ org: 'travel', seed: { members: 5 } });
});

after(() => org.close());

const key = (() => {
  let count = 0;
  return () => `key-${(count += 1)}`;
})();

/** An offer as this org takes it. */
function offer(changes: object = {}): Record<string, unknown> {
  return { Gateway_Key__c: key(), Name: 'Lisbon', Supplier__c: 'tui', Channel__c: 'Partner', ...changes };
}

function booking(changes: object = {}): Record<string, unknown> {
  const [member] = org.simulator.memberIds(1);
  const given = { Title__c: 'Lisbon', Supplier__c: 'tui', Office__c: 'Online' };
  return { Gateway_Key__c: key(), ...given, Traveller__r: { Member_Key__c: member }, ...changes };
}

async function describeOf(object: string): Promise<Parsed> {
  return (await org.data('GET', `/sobjects/${object}/describe`)).body;
}

async function fieldOf(object: string, name: string): Promise<Parsed> {
  return (await describeOf(object)).fields.find((field: Parsed) => field.name === name);
}

async function typeId(developerName: string): Promise<string> {
  const { recordTypeInfos } = await describeOf('Travel_Offer__c');
  return recordTypeInfos.find((each: Parsed) => each.developerName === developerName).recordTypeId;
}

async function created(object: string, body: object): Promise<Parsed> {
  const answer = await org.data('POST', `/sobjects/${object}`, body);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return (await org.data('GET', `/sobjects/${object}/${answer.body.id}`)).body;
}

/** Status, code and fields of the refusal of a record. */
async function refused(object: string, body: object, headers?: Record<string, string>): Promise<unknown[]> {
  const answer = await org.data('POST', `/sobjects/${object}`, body, headers);
  const [{ errorCode, fields }] = answer.body;
  return [answer.status, errorCode, fields];
}

describe('an org of its own names', () => {
  it('has none that the service has by default', async () => {
    const resources = Object.values<Resource>({ ...resourcesOf() });
    const defaults = resources.flatMap(({ crmObject, fields }) => [
      crmObject,
      ...Object.values(fields).flatMap(({ crm: { path, lookupColumn, continuations = [] } }) => [
        path,
        ...(lookupColumn === undefined ? [] : [lookupColumn]),
        ...continuations,
      ]),
    ]);
    const { sobjects } = (await org.data('GET', '/sobjects')).body;
    const objects = sobjects.filter(({ custom }: Parsed) => custom).map(({ name }: Parsed) => name);
    assert.equal(objects.length, 3);
    const described = await Promise.all(objects.map(describeOf));
    const fields = described.flatMap((object) =>
      object.fields.filter(({ custom }: Parsed) => custom).map(({ name }: Parsed) => name),
    );
    assert.ok(fields.length > 50);
    assert.deepEqual(
      [...objects, ...fields].filter((name: string) => defaults.includes(name)),
      [],
    );
  });

  it('has the seeded members in its own object', async () => {
    const { body } = await org.query('SELECT Member_Key__c, Full_Name__c, Work_Email__c FROM Traveller__c');
    assert.equal(body.totalSize, 5);
    assert.equal(body.records[0].Full_Name__c, 'Amara Okafor');
    assert.deepEqual(
      body.records.map((each: Parsed) => each.Member_Key__c),
      org.simulator.memberIds(5),
    );
  });

  it('has no object and no field of the package', async () => {
    const { body } = await org.data('GET', '/sobjects');
    const names = body.sobjects.map(({ name }: Parsed) => name);
    assert.ok(names.includes('Travel_Offer__c') && !names.includes('Quote__c'));
    assert.equal((await org.query('SELECT External_Id__c FROM Contact')).body[0].errorCode, 'INVALID_FIELD');
  });

  it('finds a record by the key of its parent, and fills in what is not sent', async () => {
    const [member] = org.simulator.memberIds(1);
    const row = await created('Travel_Offer__c', offer({ Traveller__r: { Member_Key__c: member } }));
    assert.equal(row.Stage__c, 'created');
    assert.equal(row.RecordTypeId, await typeId('Travel'));
    assert.equal(row.CurrencyIsoCode, 'EUR');
    assert.equal(row.Sales_Team__c, 'Online', 'set by a trigger');
    assert.equal(row.Headline__c, 'Lisbon tui');
    assert.equal(row.Flexible__c, false);
    const nameless = await created('Travel_Offer__c', offer({ Name: null }));
    assert.equal(nameless.Name, nameless.Id);
  });
});

describe('fields', () => {
  it('keep every type, several values in the order of the picklist', async () => {
    const row = await created(
      'Travel_Offer__c',
      offer({
        Budget__c: 1200.5,
        Nights__c: 7,
        Check_In__c: '2027-03-01',
        Valid_Until__c: '2027-02-01T10:00:00Z',
        Flexible__c: true,
        Board__c: 'Breakfast',
        Extras__c: 'Parking;Transfer;Parking',
      }),
    );
    assert.equal(row.Extras__c, 'Transfer;Parking');
    assert.equal(row.Valid_Until__c, '2027-02-01T10:00:00.000+0000');
    assert.deepEqual([row.Budget__c, row.Nights__c, row.Flexible__c], [1200.5, 7, true]);
    const { body } = await org.query(
      "SELECT Id FROM Travel_Offer__c WHERE Extras__c INCLUDES ('Insurance', 'Transfer;Parking') AND Flexible__c = true AND Check_In__c = 2027-03-01 AND Budget__c > 1000",
    );
    assert.equal(body.totalSize, 1);
  });

  it('show an address as an object that is written by its parts', async () => {
    const traveller = await created('Traveller__c', {
      Family_Name__c: 'Haddad',
      Home__City__s: 'Lisbon',
      Home__CountryCode__s: 'PT',
    });
    assert.equal(traveller.Home__c.city, 'Lisbon');
    const { body } = await org.query(`SELECT Home__c FROM Traveller__c WHERE Id = '${traveller.Id}'`);
    assert.equal(body.records[0].Home__c.country, 'PT');
    assert.equal((await org.query("SELECT Id FROM Traveller__c WHERE Home__c = 'x'")).status, 400);
  });

  const wrong: [string, object, string, string[] | undefined][] = [
    [
      'a required field that is not sent',
      { Channel__c: undefined },
      'REQUIRED_FIELD_MISSING',
      ['Channel__c'],
    ],
    [
      'a value that a restricted picklist does not have',
      { Stage__c: 'lost' },
      'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST',
      ['Stage__c'],
    ],
    ['an inactive value', { Stage__c: 'archived' }, 'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST', ['Stage__c']],
    [
      'an unknown currency',
      { CurrencyIsoCode: 'DEM' },
      'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST',
      ['CurrencyIsoCode'],
    ],
    ['a text that is too long', { Supplier__c: 'x'.repeat(121) }, 'STRING_TOO_LONG', ['Supplier__c']],
    ['too many digits', { Nights__c: 1000 }, 'NUMBER_OUTSIDE_VALID_RANGE', ['Nights__c']],
    ['a field that the user may not see', { Margin__c: 5 }, 'INVALID_FIELD', undefined],
    [
      'a field that the user may only read',
      { Approved_By__c: 'A' },
      'INVALID_FIELD_FOR_INSERT_UPDATE',
      ['Approved_By__c'],
    ],
    ['a formula', { Headline__c: 'A' }, 'INVALID_FIELD_FOR_INSERT_UPDATE', ['Headline__c']],
    ['a broken rule', { Budget__c: -1 }, 'FIELD_CUSTOM_VALIDATION_EXCEPTION', ['Budget__c']],
    ['a day with a time', { Check_In__c: '2027-03-01T00:00:00Z' }, 'JSON_PARSER_ERROR', undefined],
    ['a record of another object', { Traveller__c: '005000000000001' }, 'MALFORMED_ID', ['Traveller__c']],
    [
      'a parent with a bare type',
      { Traveller__r: { type: 'Traveller__c', Member_Key__c: 'x' } },
      'JSON_PARSER_ERROR',
      undefined,
    ],
    ['an owner that is no user', { OwnerId: '003000000000001' }, 'FIELD_INTEGRITY_EXCEPTION', ['OwnerId']],
  ];
  for (const [what, change, code, fields] of wrong) {
    it(`refuse ${what}`, async () => {
      assert.deepEqual(await refused('Travel_Offer__c', offer(change)), [400, code, fields]);
    });
  }
});

describe('record types', () => {
  it('are described, with those that the user may not use, and the master', async () => {
    const { recordTypeInfos } = await describeOf('Travel_Offer__c');
    const shown = recordTypeInfos.map((each: Parsed) => [
      each.developerName,
      each.available,
      each.defaultRecordTypeMapping,
    ]);
    assert.deepEqual(shown, [
      ['Travel', true, true],
      ['Corporate', true, false],
      ['Legacy_Import', false, false],
      ['Master', true, false],
    ]);
    const [master] = (await describeOf('Contact')).recordTypeInfos;
    assert.deepEqual([master.recordTypeId, master.master], ['012000000000000AAA', true]);
  });

  it('are refused by the field where the user may not use them', async () => {
    const body = offer({ RecordTypeId: await typeId('Legacy_Import') });
    const expected = [400, 'INVALID_CROSS_REFERENCE_KEY', ['RecordTypeId']];
    assert.deepEqual(await refused('Travel_Offer__c', body), expected);
  });

  it('decide which values and rules hold', async () => {
    const corporate = { RecordTypeId: await typeId('Corporate') };
    assert.deepEqual(await refused('Travel_Offer__c', offer(corporate)), [
      400,
      'FIELD_CUSTOM_VALIDATION_EXCEPTION',
      ['Cost_Centre__c'],
    ]);
    const full = { ...corporate, Cost_Centre__c: '4711', Board__c: 'Full board' };
    assert.deepEqual(await refused('Travel_Offer__c', offer(full)), [
      400,
      'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST',
      ['Board__c'],
    ]);
    await created('Travel_Offer__c', offer({ ...full, Board__c: 'Breakfast' }));
  });

  it('are records, as the currencies are', async () => {
    const { body } = await org.query(
      "SELECT Id, DeveloperName FROM RecordType WHERE SobjectType = 'Travel_Offer__c' AND IsActive = true AND DeveloperName = 'Travel'",
    );
    assert.equal(body.records[0].Id, await typeId('Travel'));
    const currencies = await org.query(
      'SELECT IsoCode FROM CurrencyType WHERE IsActive = true ORDER BY IsoCode',
    );
    assert.deepEqual(
      currencies.body.records.map((each: Parsed) => each.IsoCode),
      ['EUR', 'GBP', 'USD'],
    );
  });
});

describe('lookup filters and duplicate rules', () => {
  it('refuse a parent that exists and does not fit', async () => {
    const [, second] = org.simulator.memberIds(2);
    await org.control('PATCH', `/records/Traveller__c?Member_Key__c=${second}`, { Membership__c: 'Left' });
    const body = booking({ Traveller__r: { Member_Key__c: second } });
    assert.deepEqual(await refused('Trip_Booking__c', body), [
      400,
      'FIELD_FILTER_VALIDATION_EXCEPTION',
      ['Traveller__c'],
    ]);
  });

  it('warn of a duplicate, unless the caller saves it all the same', async () => {
    await created('Trip_Booking__c', booking({ Supplier_Reference__c: 'R1' }));
    const answer = await org.data(
      'POST',
      '/sobjects/Trip_Booking__c',
      booking({ Supplier_Reference__c: 'r1' }),
    );
    assert.equal(answer.status, 400);
    const [{ errorCode, duplicateResult }] = answer.body;
    assert.deepEqual([errorCode, duplicateResult.allowSave], ['DUPLICATES_DETECTED', true]);
    assert.equal(duplicateResult.matchResults[0].size, 1);
    const saves = { 'Sforce-Duplicate-Rule-Header': 'allowSave=true; includeRecordDetails=true' };
    const records = [
      { attributes: { type: 'Trip_Booking__c' }, ...booking({ Supplier_Reference__c: 'R1' }) },
    ];
    const [item] = (await org.data('POST', '/composite/sobjects', { records })).body;
    assert.equal(item.errors[0].statusCode, 'DUPLICATES_DETECTED');
    const [saved] = (await org.data('POST', '/composite/sobjects', { records }, saves)).body;
    assert.equal(saved.success, true);
  });

  it('block a duplicate whatever the caller says', async () => {
    const saves = { 'Sforce-Duplicate-Rule-Header': 'allowSave=true' };
    const same = { Family_Name__c: 'A', Work_Email__c: 'amara.okafor.1@example.com' };
    const answer = await org.data('POST', '/sobjects/Traveller__c', same, saves);
    assert.deepEqual([answer.status, answer.body[0].duplicateResult.allowSave], [400, false]);
  });
});

describe('triggers of the description', () => {
  it('fail the record, or all of its trigger call', async () => {
    const records = ['Rome', 'Forbidden destination', 'Oslo'].map((Name) => ({
      attributes: { type: 'Travel_Offer__c' },
      ...offer({ Name }),
    }));
    const { body } = await org.data('POST', '/composite/sobjects', { records });
    assert.deepEqual(
      body.map(({ success }: Parsed) => success),
      [true, false, true],
    );
    const thrown = records.map((record, index) => ({
      ...record,
      Gateway_Key__c: key(),
      Name: 'Rome',
      ...(index === 1 && { Supplier__c: 'audit-fails' }),
    }));
    const all = (await org.data('POST', '/composite/sobjects', { records: thrown })).body;
    assert.ok(
      all.every(({ errors }: Parsed) => errors[0].message.startsWith('OfferAudit: execution of AfterInsert')),
    );
  });
});

describe('describe', () => {
  it('says of fields what a check of a mapping needs', async () => {
    const stage = await fieldOf('Travel_Offer__c', 'Stage__c');
    assert.deepEqual(stage.picklistValues[0], {
      active: true,
      defaultValue: true,
      label: 'New',
      value: 'created',
      validFor: null,
    });
    assert.equal(stage.picklistValues.at(-1).active, false);
    const lookup = await fieldOf('Travel_Offer__c', 'Traveller__c');
    assert.deepEqual([lookup.referenceTo, lookup.relationshipName], [['Traveller__c'], 'Traveller__r']);
    const owner = await fieldOf('Travel_Offer__c', 'OwnerId');
    assert.deepEqual(
      [owner.referenceTo, owner.namePointing, owner.nillable],
      [['Group', 'User'], true, false],
    );
    const required = (await describeOf('Travel_Offer__c')).fields.filter(
      (field: Parsed) => field.createable && !field.nillable && !field.defaultedOnCreate,
    );
    assert.deepEqual(
      required.map(({ name }: Parsed) => name),
      ['Supplier__c', 'Channel__c'],
    );
    const approved = await fieldOf('Travel_Offer__c', 'Approved_By__c');
    assert.deepEqual([approved.createable, approved.updateable], [false, false]);
    assert.equal(await fieldOf('Travel_Offer__c', 'Margin__c'), undefined);
    assert.equal((await fieldOf('Travel_Offer__c', 'Headline__c')).calculated, true);
    assert.equal((await fieldOf('Traveller__c', 'Home__City__s')).compoundFieldName, 'Home__c');
    assert.equal((await fieldOf('Travel_Offer__c', 'Payload__c')).filterable, false);
    const { childRelationships } = await describeOf('Traveller__c');
    assert.ok(childRelationships.some((each: Parsed) => each.relationshipName === 'Offers__r'));
  });

  it('answers 304 until the object changes, also as a part of a composite', async () => {
    const path = '/sobjects/Trip_Booking__c/describe';
    const { headers } = await org.data('GET', path);
    const since = { 'If-Modified-Since': headers.get('last-modified') ?? '' };
    assert.equal((await org.data('GET', path, undefined, since)).status, 304);
    const part = { method: 'GET', url: `/services/data/v62.0${path}`, referenceId: 'a', httpHeaders: since };
    const { body } = await org.data('POST', '/composite', { compositeRequest: [part] });
    assert.equal(body.compositeResponse[0].httpStatusCode, 304);
    await org.control('PATCH', '/org', { objects: { Trip_Booking__c: { fields: { Paid__c: null } } } });
    const changed = await org.data('GET', path, undefined, since);
    assert.equal(changed.status, 200);
    assert.ok(!changed.body.fields.some(({ name }: Parsed) => name === 'Paid__c'));
    assert.equal((await org.query('SELECT Paid__c FROM Trip_Booking__c')).body[0].errorCode, 'INVALID_FIELD');
    await org.control('POST', '/reset', { records: false });
    assert.notEqual(await fieldOf('Trip_Booking__c', 'Paid__c'), undefined);
  });
});

describe('a change while the org runs', () => {
  it('takes rights, lengths, objects and versions, and keeps the records', async () => {
    const { Id } = await created('Travel_Offer__c', offer());
    const change = (objects: object) => org.control('PATCH', '/org', { objects });
    await change({ Travel_Offer__c: { access: 'read', fields: { Supplier__c: { length: 2 } } } });
    const expected = [400, 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', []];
    assert.deepEqual(await refused('Travel_Offer__c', offer()), expected);
    await change({
      Travel_Offer__c: { access: 'none' },
      Travel_Idea__c: { fields: { A__c: { type: 'text' } } },
    });
    assert.equal((await org.data('GET', '/sobjects/Travel_Offer__c/describe')).status, 404);
    await created('Travel_Idea__c', { A__c: 'x' });
    await org.control('PATCH', '/org', { newestVersion: 61 });
    assert.equal((await org.data('GET', '/limits')).status, 404);
    await org.control('POST', '/reset', { records: false });
    assert.equal((await org.data('GET', `/sobjects/Travel_Offer__c/${Id}`)).body.Supplier__c, 'tui');
  });

  it('names what is no description', async () => {
    const { status, body } = await org.control('PATCH', '/org', {
      objects: { Travel_Offer__c: { fields: { Board__c: { type: 'list' } } } },
    });
    assert.equal(status, 400);
    assert.match(body.error, /^objects\.Travel_Offer__c\.fields\.Board__c\.type must be one of text/);
    assert.equal((await org.data('GET', '/sobjects/Travel_Offer__c/describe')).status, 200);
  });

  it('lets error texts be in another language', async () => {
    await org.control('PATCH', '/org', { language: 'de' });
    const body = offer({ RecordTypeId: await typeId('Legacy_Import') });
    const answer = await org.data('POST', '/sobjects/Travel_Offer__c', body);
    assert.match(answer.body[0].message, /ist für den Benutzer nicht gültig/);
    await org.control('POST', '/reset', { records: false });
  });
});
