import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { DATA, type Parsed, startOrg, type TestOrg } from './org.ts';

let org: TestOrg;
before(async () => {
  org = await startOrg();
});
after(() => org.close());
beforeEach(() => org.control('POST', '/reset'));

interface SubAnswer {
  httpStatusCode: number;
  body: Parsed;
  httpHeaders: Record<string, string>;
  referenceId: string;
}

const QUOTE = { Name__c: 'Lisbon', Source__c: 'flights' };
const create = (referenceId: string, body: object = QUOTE): object => ({
  method: 'POST',
  url: `${DATA}/sobjects/Quote__c`,
  referenceId,
  body,
});
const composite = async (compositeRequest: object[]): Promise<SubAnswer[]> => {
  const answer = await org.data('POST', '/composite', { compositeRequest });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.compositeResponse;
};
const count = async (): Promise<number> => (await org.query('SELECT COUNT() FROM Quote__c')).body.totalSize;
const statuses = (answers: SubAnswer[]): number[] => answers.map((answer) => answer.httpStatusCode);

describe('composite', () => {
  it('runs subrequests in their order, in one metered call', async () => {
    const before = (await org.control('GET', '/counters')).body.metered;
    const answers = await composite([
      create('quote', { ...QUOTE, External_Id__c: 'k1' }),
      { method: 'GET', url: `${DATA}/query?q=SELECT+External_Id__c+FROM+Quote__c`, referenceId: 'rows' },
    ]);
    assert.deepEqual(statuses(answers), [201, 200]);
    assert.match(answers[0]?.httpHeaders.Location ?? '', /\/sobjects\/Quote__c\/a/);
    assert.equal(answers[1]?.body.records[0].External_Id__c, 'k1');
    assert.equal((await org.control('GET', '/counters')).body.metered - before, 1);
  });

  it('answers 200 although a subrequest fails, and runs the others', async () => {
    const answers = await composite([create('bad', {}), create('good')]);
    assert.deepEqual(statuses(answers), [400, 201]);
    assert.equal(answers[0]?.body[0].errorCode, 'REQUIRED_FIELD_MISSING');
    assert.equal(await count(), 1);
  });

  it('undoes all with allOrNone where a subrequest fails', async () => {
    const send = async (...parts: object[]) => {
      const answer = await org.data('POST', '/composite', { allOrNone: true, compositeRequest: parts });
      return answer.body.compositeResponse as SubAnswer[];
    };
    const answers = await send(create('first'), create('bad', {}), create('last'));
    assert.deepEqual(
      answers.map(({ body }) => body[0].errorCode),
      ['PROCESSING_HALTED', 'REQUIRED_FIELD_MISSING', 'PROCESSING_HALTED'],
    );
    assert.equal(await count(), 0);
    assert.deepEqual(statuses(await send(create('first'), create('second'))), [201, 201]);
    assert.equal(await count(), 2);
  });

  it('holds collections, whose own allOrNone stays in force', async () => {
    const record = (name: string | null): object => ({
      attributes: { type: 'Quote__c' },
      Name__c: name,
      Source__c: 's',
    });
    const collection = (referenceId: string, allOrNone: boolean): object => ({
      method: 'POST',
      url: `${DATA}/composite/sobjects`,
      referenceId,
      body: { allOrNone, records: [record('x'), record(null)] },
    });
    assert.deepEqual(statuses(await composite([collection('a', true), collection('b', false)])), [200, 200]);
    assert.equal(await count(), 1);
  });

  it('refuses the whole request for each rule that it breaks', async () => {
    const collection = { method: 'GET', url: `${DATA}/query?q=SELECT+Id+FROM+Quote__c` };
    const broken: object[][] = [
      [],
      Array.from({ length: 26 }, (_, index) => create(`r${index}`)),
      Array.from({ length: 6 }, (_, index) => ({ ...collection, referenceId: `q${index}` })),
      [create('same'), create('same')],
      [create('not valid')],
      [{ ...create('a'), httpHeaders: { Authorization: 'Bearer x' } }],
      [{ method: 'GET', referenceId: 'a' }],
    ];
    for (const compositeRequest of broken) {
      const answer = await org.data('POST', '/composite', { compositeRequest });
      assert.equal(answer.status, 400, JSON.stringify(compositeRequest).slice(0, 100));
    }
    assert.equal(await count(), 0);
  });

  it('does not nest, and takes no other paths', async () => {
    const request = (url: string) => ({ method: 'POST', url, referenceId: 'a', body: {} });
    for (const path of [`${DATA}/composite`, '/services/oauth2/token', `${DATA}/sobjects/%`]) {
      const [answer] = await composite([request(path)]);
      assert.ok([400, 404].includes(answer?.httpStatusCode ?? 0), path);
    }
  });
});
