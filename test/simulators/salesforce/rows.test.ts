import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type Answer, startOrg, type TestOrg } from './org.ts';

let org: TestOrg;
before(async () => {
  org = await startOrg();
});
after(() => org.close());
beforeEach(() => org.control('POST', '/reset'));

const QUOTE = { Name__c: 'A week in Lisbon', Source__c: 'flights' };

async function create(object: string, body: object): Promise<string> {
  const answer = await org.data('POST', `/sobjects/${object}`, body);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body.id;
}

function isError(answer: Answer, status: number, errorCode: string, message?: RegExp): void {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  assert.ok(Array.isArray(answer.body));
  assert.equal(answer.body[0].errorCode, errorCode);
  if (message !== undefined) assert.match(answer.body[0].message, message);
}

describe('a record by its id', () => {
  it('is created, read, updated and deleted', async () => {
    const created = await org.data('POST', '/sobjects/Quote__c', { ...QUOTE, Trip_Id__c: 't' });
    assert.equal(created.status, 201);
    assert.match(created.body.id, /^[a-zA-Z0-9]{18}$/);
    assert.deepEqual({ ...created.body, id: '' }, { id: '', success: true, errors: [] });
    const path = `/sobjects/Quote__c/${created.body.id}`;
    assert.equal(created.headers.get('location'), `/services/data/v62.0${path}`);

    const read = await org.data('GET', path);
    assert.deepEqual(read.body.attributes, { type: 'Quote__c', url: `/services/data/v62.0${path}` });
    assert.equal(read.body.Status__c, 'created');
    assert.equal(read.body.Details__c, null);
    assert.match(read.body.Name, /^Q-\d{8}$/);
    assert.match(read.body.CreatedDate, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000\+0000$/);

    const updated = await org.data('PATCH', path, { Trip_Id__c: null, name__c: 'Porto' });
    assert.equal(updated.status, 204);
    assert.equal(updated.body, '');
    const some = await org.data('GET', `${path}?fields=Trip_Id__c,Name__c`);
    assert.deepEqual(Object.keys(some.body), ['attributes', 'Trip_Id__c', 'Name__c', 'Id']);
    assert.equal(some.body.Trip_Id__c, null);
    assert.equal(some.body.Name__c, 'Porto');

    assert.equal((await org.data('DELETE', path)).status, 204);
    isError(await org.data('GET', path), 404, 'ENTITY_IS_DELETED', /^entity is deleted$/);
    isError(await org.data('DELETE', path), 404, 'ENTITY_IS_DELETED');
  });

  it('is found by 15 characters, and by 18 whose case was lost', async () => {
    const id = await create('Quote__c', QUOTE);
    for (const form of [id.slice(0, 15), id, id.toLowerCase(), id.toUpperCase()]) {
      assert.equal((await org.data('GET', `/sobjects/Quote__c/${form}`)).body.Id, id, form);
    }
    isError(
      await org.data('GET', '/sobjects/Quote__c/123'),
      400,
      'MALFORMED_ID',
      /id value of incorrect type: 123/,
    );
    const contact = await create('Contact', { LastName: 'Okafor' });
    isError(await org.data('GET', `/sobjects/Quote__c/${contact}`), 400, 'MALFORMED_ID');
  });

  it('that never was is 404, by another code when it is written', async () => {
    const id = await create('Quote__c', QUOTE);
    const unknown = `${id.slice(0, 9)}zzzzzz`;
    isError(await org.data('GET', `/sobjects/Quote__c/${unknown}`), 404, 'NOT_FOUND');
    isError(
      await org.data('PATCH', `/sobjects/Quote__c/${unknown}`, QUOTE),
      404,
      'INVALID_CROSS_REFERENCE_KEY',
    );
    isError(await org.data('DELETE', `/sobjects/Quote__c/${unknown}`), 404, 'INVALID_CROSS_REFERENCE_KEY');
    isError(await org.data('GET', '/sobjects/Nothing__c/a'), 404, 'NOT_FOUND');
  });

  it('has the case checksum of the published example', async () => {
    const { caseChecksum } = await import('../../../simulators/salesforce/org/ids.ts');
    assert.equal(caseChecksum('001A0000006Vm9r'), 'IAC');
    assert.equal(caseChecksum('003000000000001'), 'AAA');
  });
});

describe('a record is refused', () => {
  const refuses = async (
    body: unknown,
    errorCode: string,
    message?: RegExp,
    object = 'Quote__c',
  ): Promise<Answer> => {
    const answer = await org.data('POST', `/sobjects/${object}`, body);
    isError(answer, 400, errorCode, message);
    return answer;
  };

  it('without its required fields', async () => {
    const answer = await refuses({ Name__c: '' }, 'REQUIRED_FIELD_MISSING', /\[Name__c, Source__c\]/);
    assert.deepEqual(answer.body[0].fields, ['Name__c', 'Source__c']);
    await refuses({ FirstName: 'Ada' }, 'REQUIRED_FIELD_MISSING', /LastName/, 'Contact');
    const id = await create('Quote__c', QUOTE);
    const cleared = await org.data('PATCH', `/sobjects/Quote__c/${id}`, { Name__c: null });
    isError(cleared, 400, 'REQUIRED_FIELD_MISSING');
  });

  it('with fields that are unknown, read only or the id', async () => {
    await refuses(
      { ...QUOTE, foo: 1 },
      'INVALID_FIELD',
      /^No such column 'foo' on sobject of type Quote__c$/,
    );
    await refuses({ ...QUOTE, Name: 'Q-1' }, 'INVALID_FIELD_FOR_INSERT_UPDATE', /fields: Name\./);
    await refuses({ ...QUOTE, CreatedDate: '2026-01-01T00:00:00Z' }, 'INVALID_FIELD_FOR_INSERT_UPDATE');
    await refuses(
      { ...QUOTE, Id: 'x' },
      'INVALID_FIELD',
      /^The Id field should not be specified in the sobject data\.$/,
    );
    isError(await org.data('GET', '/sobjects/Quote__c/x?fields=foo'), 400, 'MALFORMED_ID');
  });

  it('when text is too long, counted in UTF-16 code units', async () => {
    await create('Quote__c', { ...QUOTE, Name__c: '🏝'.repeat(127) });
    await refuses(
      { ...QUOTE, Name__c: '🏝'.repeat(128) },
      'STRING_TOO_LONG',
      /^Name: data value too large: .*\(max length=255\)$/u,
    );
    await create('Quote__c', { ...QUOTE, Details__c: 'x'.repeat(131_072) });
    await refuses({ ...QUOTE, Details__c: 'x'.repeat(131_073) }, 'STRING_TOO_LONG');
  });

  it('when a value has another type than its field', async () => {
    const sample = (body: object, code: string) => refuses(body, code, undefined, 'Sample__c');
    await refuses(
      { ...QUOTE, Name__c: 5 },
      'JSON_PARSER_ERROR',
      /Cannot deserialize instance of string from VALUE_NUMBER_INT value 5/,
    );
    await refuses({ ...QUOTE, Details__c: {} }, 'JSON_PARSER_ERROR');
    await sample({ Active__c: 'yes' }, 'JSON_PARSER_ERROR');
    await sample({ Amount__c: 'many' }, 'JSON_PARSER_ERROR');
    await sample({ Amount__c: 1_000_000 }, 'NUMBER_OUTSIDE_VALID_RANGE');
    await sample({ Day__c: '2026-02-30' }, 'JSON_PARSER_ERROR');
    await sample({ Moment__c: '2026-02-01' }, 'JSON_PARSER_ERROR');
    await sample({ Email__c: 'nobody' }, 'INVALID_EMAIL_ADDRESS');
    await sample({ Kind__c: 'odd' }, 'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST');
    await create('Quote__c', { ...QUOTE, Status__c: 'any status: this picklist is not restricted' });
  });

  it('when the body is missing or no JSON object', async () => {
    for (const body of ['', '{', '[]', '"text"', '5']) {
      isError(await org.data('POST', '/sobjects/Quote__c', body), 400, 'JSON_PARSER_ERROR');
    }
  });

  it('when a unique value is taken, naming the holder', async () => {
    const id = await create('Quote__c', { ...QUOTE, External_Id__c: 'k' });
    const message = new RegExp(
      `^duplicate value found: External_Id__c duplicates value on record with id: ${id.slice(0, 15)}$`,
    );
    await refuses({ ...QUOTE, External_Id__c: 'k' }, 'DUPLICATE_VALUE', message);
    await create('Quote__c', { ...QUOTE, External_Id__c: 'K' });
    await create('Sample__c', { Folded__c: 'k' });
    await refuses({ Folded__c: 'K' }, 'DUPLICATE_VALUE', undefined, 'Sample__c');
    await create('Sample__c', { Code__c: 'same' });
    await create('Sample__c', { Code__c: 'same' });
  });
});

describe('values', () => {
  it('come back in the forms of the API', async () => {
    const body = {
      Amount__c: '12.345',
      Day__c: '2026-02-03',
      Moment__c: '2026-02-03T04:05:06.789+02:00',
      Email__c: '',
    };
    const id = await create('Sample__c', body);
    const { body: row } = await org.data('GET', `/sobjects/Sample__c/${id}`);
    assert.equal(row.Amount__c, 12.35);
    assert.equal(row.Day__c, '2026-02-03');
    assert.equal(row.Moment__c, '2026-02-03T02:05:06.000+0000');
    assert.equal(row.Email__c, null);
    assert.equal(row.Active__c, true);
    assert.equal(row.Kind__c, 'plain');
  });

  it('keep text as it is', async () => {
    const Details__c = '{"a":12345678901234567890,"b":"é🏝\\u0000 \\"","c":{}}';
    const id = await create('Quote__c', { ...QUOTE, Details__c });
    assert.equal((await org.data('GET', `/sobjects/Quote__c/${id}`)).body.Details__c, Details__c);
  });
});

describe('lookups', () => {
  it('take an id or the external id of the parent', async () => {
    const member = await create('Contact', { LastName: 'Okafor', External_Id__c: 'm1' });
    const other = await create('Contact', { LastName: 'Chen', External_Id__c: 'm2' });
    const id = await create('Quote__c', { ...QUOTE, Member__r: { External_Id__c: 'm1' } });
    const read = async () =>
      (await org.data('GET', `/sobjects/Quote__c/${id}?fields=Member__c`)).body.Member__c;
    assert.equal(await read(), member);
    await org.data('PATCH', `/sobjects/Quote__c/${id}`, { Member__r: { External_Id__c: 'm2' } });
    assert.equal(await read(), other);
    await org.data('PATCH', `/sobjects/Quote__c/${id}`, { Member__c: member.slice(0, 15) });
    assert.equal(await read(), member);
    assert.equal((await org.data('DELETE', `/sobjects/Contact/${member}`)).status, 204);
    assert.equal(await read(), null);
  });

  it('refuse a parent that is not there', async () => {
    const post = (body: object) => org.data('POST', '/sobjects/Quote__c', { ...QUOTE, ...body });
    const missing = /^Foreign key external ID: gone not found for field External_Id__c in entity Contact$/;
    isError(await post({ Member__r: { External_Id__c: 'gone' } }), 400, 'INVALID_FIELD', missing);
    isError(await post({ Member__r: { Name: 'x' } }), 400, 'INVALID_FIELD');
    isError(await post({ Member__r: 'x' }), 400, 'JSON_PARSER_ERROR');
    isError(await post({ Owner__r: { Name: 'x' } }), 400, 'INVALID_FIELD');
    isError(await post({ Member__c: 'x' }), 400, 'MALFORMED_ID');
    isError(await post({ Member__c: '003000000000009' }), 400, 'INVALID_CROSS_REFERENCE_KEY');
    const id = await create('Contact', { LastName: 'Chen', External_Id__c: 'm' });
    isError(await post({ Member__c: id, Member__r: { External_Id__c: 'm' } }), 400, 'INVALID_FIELD', /both/);
  });
});

describe('a record that somebody else owns, in an object that is private', () => {
  const user = () => org.control('POST', '/records/User', { Username: 'ana', LastName: 'x', IsActive: true });
  const share = (more: object) =>
    org.control('PATCH', '/org', { objects: { Quote__c: { sharing: 'private', ...more } } });
  const keyed = (more: object) => ({ ...QUOTE, External_Id__c: 'shared-key', ...more });

  it('is seen with View All only', async () => {
    await share({});
    const [OwnerId] = (await user()).body.ids;
    const id = await create('Quote__c', keyed({ OwnerId }));
    const own = await create('Quote__c', QUOTE);
    const path = `/sobjects/Quote__c/${id}`;
    const ids = async () =>
      (await org.query('SELECT Id FROM Quote__c ORDER BY Name')).body.records.map(
        (row: { Id: string }) => row.Id,
      );
    assert.equal((await org.data('GET', path)).status, 200);
    await share({ viewAll: false });
    assert.deepEqual(await ids(), [own]);
    isError(await org.data('GET', path), 404, 'NOT_FOUND');
    for (const [method, body] of [['PATCH', { Name__c: 'b' }], ['DELETE']] as const)
      isError(await org.data(method, path, body), 403, 'INSUFFICIENT_ACCESS_OR_READONLY');
    const many = await org.data('DELETE', `/composite/sobjects?ids=${id}`);
    assert.equal(many.body[0].errors[0].statusCode, 'INSUFFICIENT_ACCESS_OR_READONLY');
    const again = await org.data('POST', '/sobjects/Quote__c', keyed({}));
    isError(again, 400, 'DUPLICATE_VALUE', /<unknown> duplicates value on record with id: <unknown>/);
    await share({ viewAll: true });
    assert.deepEqual(await ids(), [id, own]);
    assert.equal((await org.data('DELETE', path)).status, 204);
  });

  it('is deleted by who may delete', async () => {
    const id = await create('Quote__c', QUOTE);
    const described = async () => (await org.data('GET', '/sobjects/Quote__c/describe')).body.deletable;
    assert.equal(await described(), true);
    await org.control('PATCH', '/org', { objects: { Quote__c: { deletable: false } } });
    assert.equal(await described(), false);
    isError(await org.data('DELETE', `/sobjects/Quote__c/${id}`), 403, 'INSUFFICIENT_ACCESS_OR_READONLY');
    assert.equal((await org.data('PATCH', `/sobjects/Quote__c/${id}`, { Name__c: 'b' })).status, 204);
  });

  it('can be made, and rights are among the records of the set-up', async () => {
    await share({ viewAll: false });
    const [OwnerId] = (await user()).body.ids;
    const id = await create('Quote__c', { ...QUOTE, OwnerId });
    isError(await org.data('GET', `/sobjects/Quote__c/${id}`), 404, 'NOT_FOUND');
    const all = await org.query(
      "SELECT SobjectType FROM ObjectPermissions WHERE PermissionsViewAllRecords = true AND SobjectType IN ('Quote__c','Contact')",
    );
    assert.deepEqual(
      all.body.records.map((row: { SobjectType: string }) => row.SobjectType),
      ['Contact'],
    );
    const mine = `(SELECT PermissionSetId FROM PermissionSetAssignment WHERE AssigneeId = '${(await org.query('SELECT Id FROM User')).body.records[0].Id}')`;
    const byUser = await org.query(
      `SELECT PermissionsViewAllRecords FROM ObjectPermissions WHERE SobjectType = 'Quote__c' AND ParentId IN ${mine}`,
    );
    assert.equal(byUser.body.records[0].PermissionsViewAllRecords, false);
    const nobodys = mine.replace(/'\w+'/, 'null');
    const none = await org.query(`SELECT Id FROM ObjectPermissions WHERE ParentId IN ${nobodys}`);
    assert.equal(none.body.totalSize, 0);
  });
});
