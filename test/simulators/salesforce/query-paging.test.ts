import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { startOrg, type TestOrg } from './org.ts';

let org: TestOrg;
const TOTAL = 4100;
const pad = (index: number): string => `k${String(index).padStart(5, '0')}`;

before(async () => {
  org = await startOrg();
  const rows = Array.from({ length: TOTAL }, (_, index) => ({
    External_Id__c: pad(index),
    Name__c: `Name ${index % 7}`,
    Source__c: 'bulk',
    // Ten rows share each second, so that lists have ties to break.
    CreatedDate: instant(index),
    LastModifiedDate: '2026-05-01T00:00:00Z',
  }));
  const answer = await org.control('POST', '/records/Quote__c', rows);
  assert.equal(answer.body.ids.length, TOTAL, JSON.stringify(answer.body).slice(0, 200));
});
after(() => org.close());

const keysOf = (records: { External_Id__c: string }[]): string[] => records.map((row) => row.External_Id__c);

describe('pages of a query', () => {
  it('hold 2000 rows and lead to the next one', async () => {
    const first = await org.query('SELECT External_Id__c FROM Quote__c ORDER BY External_Id__c');
    assert.deepEqual(
      [first.body.totalSize, first.body.done, first.body.records.length],
      [TOTAL, false, 2000],
    );
    const second = await org.call('GET', first.body.nextRecordsUrl);
    const third = await org.call('GET', second.body.nextRecordsUrl);
    assert.equal(third.body.done, true);
    assert.equal('nextRecordsUrl' in third.body, false);
    const all = [first, second, third].flatMap((page) => keysOf(page.body.records));
    assert.deepEqual(
      all,
      Array.from({ length: TOTAL }, (_, index) => pad(index)),
    );
    const repeated = await org.call('GET', first.body.nextRecordsUrl);
    assert.deepEqual(repeated.body, second.body);
  });

  it('follow the size that the caller asks for', async () => {
    const page = await org.query('SELECT Id FROM Quote__c', { 'Sforce-Query-Options': 'batchSize=250' });
    assert.equal(page.body.records.length, 250);
    assert.match(page.body.nextRecordsUrl, /-250$/);
  });

  it('are refused for an unknown locator', async () => {
    const answer = await org.data('GET', '/query/01gNOTHERE-500');
    assert.equal(answer.status, 400);
    assert.equal(answer.body[0].errorCode, 'INVALID_QUERY_LOCATOR');
  });

  it('stop at 2000 rows once OFFSET is used', async () => {
    assert.equal((await org.query('SELECT Id FROM Quote__c OFFSET 5')).body.totalSize, 2000);
  });
});

describe('keyset pages', () => {
  for (const [direction, sign] of [
    ['DESC', '<'],
    ['ASC', '>'],
  ] as const) {
    it(`read every row once, ${direction}`, async () => {
      const order = `ORDER BY CreatedDate ${direction}, External_Id__c ${direction} LIMIT 600`;
      const seen: string[] = [];
      let filter = '';
      for (;;) {
        const soql = `SELECT External_Id__c, CreatedDate FROM Quote__c WHERE Source__c = 'bulk' ${filter} ${order}`;
        const { records } = (await org.query(soql)).body;
        seen.push(...keysOf(records));
        if (records.length < 600) break;
        const last = records.at(-1);
        const moment = last.CreatedDate.replace('+0000', 'Z');
        filter = `AND (CreatedDate ${sign} ${moment} OR (CreatedDate = ${moment} AND External_Id__c ${sign} '${last.External_Id__c}'))`;
      }
      const expected = Array.from({ length: TOTAL }, (_, index) => pad(index));
      assert.deepEqual(seen, direction === 'ASC' ? expected : expected.reverse());
    });
  }
});

interface Expected {
  key: string;
  name: string;
  created: string;
}

/** A condition in SOQL, and the same in plain code to check it by. */
interface Condition {
  soql: string;
  accepts(row: Expected): boolean;
}

const instant = (index: number): string =>
  new Date(Date.UTC(2026, 0, 1) + Math.floor(index / 10) * 1000).toISOString();
const EXPECTED: Expected[] = Array.from({ length: TOTAL }, (_, index) => ({
  key: pad(index),
  name: `Name ${index % 7}`,
  created: instant(index),
}));

const COMPARE: Record<string, (a: string, b: string) => boolean> = {
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};

describe('the fast ways to rows', () => {
  const operator = fc.constantFrom(...Object.keys(COMPARE));
  const position = fc.integer({ min: 0, max: TOTAL - 1 });
  const comparing = (
    field: string,
    read: (row: Expected) => string,
    quote: string,
    value: fc.Arbitrary<string>,
  ) =>
    fc.tuple(operator, value).map(
      ([sign, bound]): Condition => ({
        soql: `${field} ${sign} ${quote}${bound}${quote}`,
        accepts: (row) => COMPARE[sign]?.(read(row), bound) === true,
      }),
    );
  const among = fc.array(position.map(pad), { minLength: 1, maxLength: 4 }).map(
    (keys): Condition => ({
      soql: `External_Id__c IN (${keys.map((key) => `'${key}'`).join(',')})`,
      accepts: (row) => keys.includes(row.key),
    }),
  );
  const leaf = fc.oneof(
    comparing('External_Id__c', (row) => row.key, "'", position.map(pad)),
    comparing('CreatedDate', (row) => row.created, '', position.map(instant)),
    comparing('Name__c', (row) => row.name, "'", fc.constantFrom('Name 1', 'Name 5')),
    among,
  );
  const negated = leaf.map(
    (inner): Condition => ({ soql: `(NOT ${inner.soql})`, accepts: (row) => !inner.accepts(row) }),
  );
  const condition = fc.letrec<{ node: Condition }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 3 },
      leaf,
      negated,
      fc.tuple(tie('node'), tie('node')).map(
        ([a, b]): Condition => ({
          soql: `(${a.soql} AND ${b.soql})`,
          accepts: (row) => a.accepts(row) && b.accepts(row),
        }),
      ),
      fc.tuple(tie('node'), tie('node')).map(
        ([a, b]): Condition => ({
          soql: `(${a.soql} OR ${b.soql})`,
          accepts: (row) => a.accepts(row) || b.accepts(row),
        }),
      ),
    ),
  })).node;

  it('give the rows that a plain scan gives, in the same order', async () => {
    const way = fc.constantFrom('ASC', 'DESC');
    const order = fc.constantFrom('CreatedDate', 'Source__c');
    await fc.assert(
      fc.asyncProperty(
        condition,
        way,
        order,
        fc.integer({ min: 1, max: 40 }),
        async (where, way, first, limit) => {
          const sorting = `${first} ${way}, External_Id__c ${way} LIMIT ${limit}`;
          const answer = await org.query(
            `SELECT External_Id__c FROM Quote__c WHERE ${where.soql} ORDER BY ${sorting}`,
          );
          assert.equal(answer.status, 200, JSON.stringify(answer.body));
          // Keys rise with CreatedDate, and Source__c is the same everywhere: both orders are the order of the keys.
          const matching = EXPECTED.filter(where.accepts).map((row) => row.key);
          if (way === 'DESC') matching.reverse();
          assert.deepEqual(keysOf(answer.body.records), matching.slice(0, limit), where.soql);
        },
      ),
      { numRuns: 150 },
    );
  });

  it('find the rows of a parent and stay right when keys change', async () => {
    await org.data('POST', '/sobjects/Contact', { External_Id__c: 'm1', LastName: 'Okafor' });
    const path = await org.pathOf('Quote__c', pad(5));
    await org.data('PATCH', path, { Member__r: { External_Id__c: 'm1' } });
    const byParent =
      "SELECT External_Id__c FROM Quote__c WHERE Member__r.External_Id__c = 'm1' AND Source__c = 'bulk'";
    assert.deepEqual(keysOf((await org.query(byParent)).body.records), [pad(5)]);
    await org.data('PATCH', path, { External_Id__c: 'renamed' });
    assert.equal(
      (await org.query(`SELECT Id FROM Quote__c WHERE External_Id__c = '${pad(5)}'`)).body.totalSize,
      0,
    );
    assert.deepEqual(keysOf((await org.query(byParent)).body.records), ['renamed']);
    const list = await org.query(
      'SELECT External_Id__c FROM Quote__c ORDER BY CreatedDate, External_Id__c LIMIT 10',
    );
    assert.equal(list.body.records.at(-1).External_Id__c, 'renamed');
  });

  it('put rows without a key where ORDER BY wants them', async () => {
    await org.data('POST', '/sobjects/Booking__c', { Name__c: 'no key', Source__c: 's' });
    await org.control('POST', '/records/Booking__c', [
      { External_Id__c: 'z', Name__c: 'x', Source__c: 's', CreatedDate: '2026-01-01T00:00:00Z' },
      { Name__c: 'x', Source__c: 's', CreatedDate: '2026-01-01T00:00:00Z' },
    ]);
    const keys = async (order: string) =>
      keysOf(
        (await org.query(`SELECT External_Id__c FROM Booking__c WHERE Name__c = 'x' ORDER BY ${order}`)).body
          .records,
      );
    assert.deepEqual(await keys('CreatedDate DESC, External_Id__c DESC'), [null, 'z']);
    assert.deepEqual(await keys('CreatedDate DESC, External_Id__c DESC NULLS LAST'), ['z', null]);
    assert.deepEqual(await keys('CreatedDate, External_Id__c'), [null, 'z']);
    assert.deepEqual(await keys('CreatedDate, External_Id__c NULLS LAST'), ['z', null]);
  });
});
