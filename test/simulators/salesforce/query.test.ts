import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Answer, startOrg, type TestOrg } from './org.ts';

let org: TestOrg;

const ROWS = [
  { Code__c: 'Alpha', Folded__c: 'a', Amount__c: 1, Day__c: '2026-01-01', Moment__c: '2026-01-01T10:00:00Z' },
  { Code__c: 'beta', Folded__c: 'b', Amount__c: 2.5, Day__c: '2026-02-01', Active__c: false },
  { Code__c: "it's 100%_\\", Folded__c: 'c', Amount__c: 10, Moment__c: '2026-03-01T10:00:00Z' },
  { Folded__c: 'd', Email__c: 'd@example.com' },
];

before(async () => {
  org = await startOrg();
  const records = ROWS.map((row) => ({ attributes: { type: 'Sample__c' }, ...row }));
  await org.data('POST', '/composite/sobjects', { records });
  const member = { External_Id__c: 'm1', LastName: 'Okafor', FirstName: 'Amara' };
  await org.data('POST', '/sobjects/Contact', member);
  const quote = { Name__c: 'Lisbon', Source__c: 'flights', Details__c: '{}' };
  await org.data('POST', '/sobjects/Quote__c', {
    ...quote,
    External_Id__c: 'q1',
    Member__r: { External_Id__c: 'm1' },
  });
  await org.data('POST', '/sobjects/Quote__c', { ...quote, External_Id__c: 'q2' });
});
after(() => org.close());

/** The Folded__c letters of the matching samples, in order. */
async function letters(rest: string): Promise<string> {
  const answer = await org.query(`SELECT Folded__c FROM Sample__c ${rest}`);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.records.map((row: { Folded__c: string }) => row.Folded__c).join('');
}

async function where(condition: string): Promise<string> {
  return letters(`WHERE ${condition} ORDER BY Folded__c`);
}

async function refused(soql: string): Promise<Answer> {
  const answer = await org.query(soql);
  assert.equal(answer.status, 400, soql);
  return answer;
}

async function refusedWith(soql: string, errorCode: string, message = /./): Promise<void> {
  const answer = await refused(soql);
  assert.equal(answer.body[0].errorCode, errorCode, `${soql}: ${JSON.stringify(answer.body)}`);
  assert.match(answer.body[0].message, message);
}

describe('WHERE', () => {
  it('compares text without case unless the field is unique and case-sensitive', async () => {
    assert.equal(await where("Code__c = 'ALPHA'"), 'a');
    assert.equal(await where("Code__c IN ('ALPHA', 'BETA')"), 'ab');
    assert.equal(await where("Code__c > 'ALPHA' AND Code__c < 'c'"), 'b');
    assert.equal((await org.query("SELECT Id FROM Quote__c WHERE External_Id__c = 'Q1'")).body.totalSize, 0);
    assert.equal((await org.query("SELECT Id FROM Quote__c WHERE External_Id__c = 'q1'")).body.totalSize, 1);
  });

  it('knows all operators', async () => {
    assert.equal(await where('Amount__c > 1 AND Amount__c <= 10'), 'bc');
    assert.equal(await where('Amount__c >= 2.5'), 'bc');
    assert.equal(await where('Amount__c < 2.5'), 'a');
    assert.equal(await where('Amount__c != 1'), 'bcd');
    assert.equal(await where('Amount__c <> 1'), 'bcd');
    assert.equal(await where('Active__c = false'), 'b');
    assert.equal(await where("Code__c NOT IN ('Alpha', 'beta')"), 'cd');
    assert.equal(await where("Code__c LIKE 'AL%' OR Code__c LIKE 'b_ta'"), 'ab');
    assert.equal(await where("NOT Code__c LIKE 'AL%'"), 'bcd');
  });

  it('compares with null', async () => {
    assert.equal(await where('Code__c = null'), 'd');
    assert.equal(await where('Code__c != NULL'), 'abc');
    assert.equal(await where("Code__c = ''"), 'd');
    assert.equal(await where("Code__c IN (null, 'beta')"), 'bd');
  });

  it('compares dates and moments in any zone', async () => {
    assert.equal(await where('Day__c > 2026-01-15'), 'b');
    assert.equal(await where('Moment__c = 2026-01-01T10:00:00Z'), 'a');
    assert.equal(await where('Moment__c = 2026-01-01T12:00:00+02:00'), 'a');
    assert.equal(await where('Moment__c < 2026-01-01T10:00:00.500Z'), 'a');
    assert.equal(await where('CreatedDate > 2020-01-01T00:00:00Z'), 'abcd');
  });

  it('groups with parentheses, and asks for them where AND meets OR', async () => {
    assert.equal(await where("(Amount__c = 1 OR Amount__c = 10) AND Code__c LIKE 'a%'"), 'a');
    assert.equal(await where('NOT (Amount__c = 1 OR Amount__c = 10)'), 'bd');
    assert.equal(await where('(NOT Amount__c = 1) AND Amount__c != null'), 'bc');
    assert.equal(await where('((Amount__c = 1))'), 'a');
    await refusedWith(
      'SELECT Id FROM Sample__c WHERE Amount__c = 1 AND Amount__c = 2 OR Amount__c = 3',
      'MALFORMED_QUERY',
    );
  });

  it('follows lookups', async () => {
    const soql =
      "SELECT Name__c, Member__r.Name, Member__r.External_Id__c FROM Quote__c WHERE Member__r.External_Id__c = 'm1'";
    const { body } = await org.query(soql);
    assert.equal(body.totalSize, 1);
    assert.equal(body.records[0].Member__r.Name, 'Amara Okafor');
    assert.equal(body.records[0].Member__r.attributes.type, 'Contact');
    assert.equal(
      (await org.query("SELECT Id FROM Quote__c WHERE Member__r.LastName LIKE 'oka%'")).body.totalSize,
      1,
    );
    const orphan = await org.query("SELECT Member__r.Name FROM Quote__c WHERE External_Id__c = 'q2'");
    assert.equal(orphan.body.records[0].Member__r, null);
  });
});

describe('string literals', () => {
  it('know the escapes of SOQL', async () => {
    assert.equal(await where("Code__c = 'it\\'s 100%_\\\\'"), 'c');
    assert.equal(await where("Code__c = '\\u0041lpha'"), 'a');
    assert.equal(await where("Code__c LIKE '%\\%\\_%'"), 'c');
    assert.equal(await where("Code__c LIKE '%\\_\\%%'"), '');
  });

  it('refuse any other backslash, and the LIKE escapes outside of LIKE', async () => {
    for (const literal of ["'\\q'", "'\\u00g1'", "'\\'", "'open", "'\\%'", "'\\_'"]) {
      await refusedWith(`SELECT Id FROM Sample__c WHERE Code__c = ${literal}`, 'MALFORMED_QUERY');
    }
  });

  it('can not change the query', async () => {
    assert.equal(await where("Code__c = 'x\\' OR Amount__c > 0 OR Code__c = \\'x'"), '');
  });

  it('are limited in length, and so is the query', async () => {
    const literal = (length: number): string =>
      `SELECT Id FROM Sample__c WHERE Code__c = '${'x'.repeat(length)}'`;
    const inBody = async (soql: string) => {
      const url = `/services/data/v62.0/query?q=${encodeURIComponent(soql)}`;
      const compositeRequest = [{ method: 'GET', url, referenceId: 'q' }];
      return (await org.data('POST', '/composite', { compositeRequest })).body.compositeResponse[0]
        .httpStatusCode;
    };
    assert.equal((await org.query(literal(4000))).status, 200);
    await refusedWith(literal(4001), 'MALFORMED_QUERY');
    const keys = (count: number): string =>
      Array.from({ length: count }, (_, index) => `'${'k'.repeat(30)}${index}'`).join(',');
    assert.equal(await inBody(`SELECT Id FROM Quote__c WHERE External_Id__c IN (${keys(2500)})`), 200);
    assert.equal(await inBody(`SELECT Id FROM Quote__c WHERE External_Id__c IN (${keys(3000)})`), 400);
  });
});

describe('ORDER BY, LIMIT and OFFSET', () => {
  it('sort without case, nulls first unless the query says otherwise', async () => {
    assert.equal(await letters('ORDER BY Code__c'), 'dabc');
    assert.equal(await letters('ORDER BY Code__c DESC'), 'dcba');
    assert.equal(await letters('ORDER BY Code__c ASC NULLS LAST'), 'abcd');
    assert.equal(await letters('ORDER BY Code__c DESC NULLS LAST'), 'cbad');
    assert.equal(await letters('ORDER BY Active__c DESC, Amount__c DESC NULLS LAST'), 'cadb');
  });

  it('cut the result', async () => {
    assert.equal(await letters('ORDER BY Folded__c LIMIT 2'), 'ab');
    assert.equal(await letters('ORDER BY Folded__c LIMIT 2 OFFSET 1'), 'bc');
    const limited = await org.query('SELECT Id FROM Sample__c LIMIT 3');
    assert.equal(limited.body.totalSize, 3);
    assert.equal((await org.query('SELECT COUNT() FROM Sample__c')).body.totalSize, 4);
    await refusedWith('SELECT Id FROM Sample__c OFFSET 2001', 'NUMBER_OUTSIDE_VALID_RANGE');
  });
});

describe('a query is refused', () => {
  it('for what the object does not have', async () => {
    await refusedWith(
      'SELECT Id FROM Nothing__c',
      'INVALID_TYPE',
      /sObject type 'Nothing__c' is not supported\./,
    );
    await refusedWith(
      'SELECT Nope__c FROM Sample__c',
      'INVALID_FIELD',
      /No such column 'Nope__c' on entity 'Sample__c'/,
    );
    await refusedWith("SELECT Id FROM Sample__c WHERE Nope__c = 'x'", 'INVALID_FIELD');
    await refusedWith('SELECT Id FROM Sample__c ORDER BY Nope__c', 'INVALID_FIELD');
    await refusedWith(
      'SELECT Nope__r.Name FROM Sample__c',
      'INVALID_FIELD',
      /Didn't understand relationship 'Nope__r'/,
    );
  });

  it('for filtering or sorting by long text', async () => {
    await refusedWith(
      "SELECT Id FROM Quote__c WHERE Details__c = 'x'",
      'INVALID_FIELD',
      /can not be filtered/,
    );
    await refusedWith('SELECT Id FROM Quote__c ORDER BY Details__c', 'INVALID_FIELD', /can not be sorted/);
  });

  it('for a literal of another type than its field', async () => {
    for (const condition of [
      "Amount__c = '1'",
      'Code__c = 1',
      'Moment__c = 2026-01-01',
      'Day__c = 2026-01-01T00:00:00Z',
      "CreatedDate > '2026-01-01T00:00:00Z'",
      'Active__c = 1',
      'Day__c = 2026-02-30',
    ]) {
      await refusedWith(`SELECT Id FROM Sample__c WHERE ${condition}`, 'INVALID_FIELD', /filter criterion/);
    }
    await refusedWith(
      "SELECT Id FROM Sample__c WHERE Id = 'x'",
      'INVALID_QUERY_FILTER_OPERATOR',
      /invalid ID field: x/,
    );
  });

  it('for what is no SOQL, or not simulated', async () => {
    for (const soql of [
      '',
      'SELECT',
      'SELECT Id FROM Sample__c WHERE',
      'SELECT Id FROM Sample__c WHERE Code__c IN ()',
      "SELECT Id FROM Sample__c WHERE Code__c = 'a' Amount__c = 1",
      "SELECT Id FROM Sample__c WHERE (Code__c = 'a'",
      "SELECT Id FROM Sample__c WHERE Code__c = 'a')",
      'DELETE FROM Sample__c',
      'SELECT Id, Id FROM Sample__c',
      'SELECT COUNT(Id) FROM Sample__c GROUP BY Code__c',
      'SELECT Id FROM Sample__c WHERE Id NOT IN (SELECT Id FROM Quote__c)',
      'SELECT Id FROM Sample__c WHERE Id IN (SELECT Id FROM Quote__c LIMIT 1)',
      'SELECT Id FROM Sample__c FOR UPDATE',
      'SELECT Id FROM Sample__c WHERE NOT NOT NOT Amount__c = 1',
      `SELECT Id FROM Sample__c WHERE ${'('.repeat(1000)}Amount__c = 1${')'.repeat(1000)}`,
    ]) {
      await refusedWith(soql, 'MALFORMED_QUERY');
    }
  });
});
