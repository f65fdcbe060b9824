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
const upsert = (referenceId: string, key: string, body: object = QUOTE): object => ({
  method: 'PATCH',
  url: `${DATA}/sobjects/Quote__c/External_Id__c/${key}`,
  referenceId,
  body,
});
const composite = async (compositeRequest: object[], more: object = {}): Promise<SubAnswer[]> => {
  const answer = await org.data('POST', '/composite', { ...more, compositeRequest });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.compositeResponse;
};
const count = async (): Promise<number> => (await org.query('SELECT COUNT() FROM Quote__c')).body.totalSize;
const statuses = (answers: SubAnswer[]): number[] => answers.map((answer) => answer.httpStatusCode);

describe('composite', () => {
  it('runs subrequests that refer to earlier ones, in one metered call', async () => {
    const before = (await org.control('GET', '/counters')).body.metered;
    const answers = await composite([
      {
        method: 'POST',
        url: `${DATA}/sobjects/Contact`,
        referenceId: 'member',
        body: { LastName: 'Okafor' },
      },
      upsert('quote', 'k1', { ...QUOTE, Member__c: '@{member.id}' }),
      { method: 'GET', url: `${DATA}/sobjects/Quote__c/@{quote.id}?fields=Member__c`, referenceId: 'read' },
      { method: 'GET', url: `${DATA}/query?q=SELECT+Id+FROM+Quote__c`, referenceId: 'rows' },
      { method: 'GET', url: `${DATA}/sobjects/Quote__c/@{rows.records[0].Id}`, referenceId: 'again' },
    ]);
    assert.deepEqual(statuses(answers), [201, 201, 200, 200, 200]);
    assert.match(answers[0]?.httpHeaders.Location ?? '', /\/sobjects\/Contact\/003/);
    assert.equal(answers[2]?.body.Member__c, answers[0]?.body.id);
    assert.equal((await org.control('GET', '/counters')).body.metered - before, 1);
  });

  it('answers 200 although subrequests fail, and halts what refers to them', async () => {
    const answers = await composite([
      upsert('bad', 'k1', {}),
      { method: 'GET', url: `${DATA}/sobjects/Quote__c/@{bad.id}`, referenceId: 'depends' },
      upsert('good', 'k2'),
    ]);
    assert.deepEqual(statuses(answers), [400, 400, 201]);
    assert.equal(answers[0]?.body[0].errorCode, 'REQUIRED_FIELD_MISSING');
    assert.equal(answers[1]?.body[0].errorCode, 'PROCESSING_HALTED');
    assert.equal(await count(), 1);
  });

  it('undoes everything with allOrNone', async () => {
    const answers = await composite([upsert('a', 'k1'), upsert('b', 'k2', {}), upsert('c', 'k3')], {
      allOrNone: true,
    });
    assert.deepEqual(statuses(answers), [400, 400, 400]);
    const codes = answers.map((answer) => answer.body[0].errorCode);
    assert.deepEqual(codes, ['PROCESSING_HALTED', 'REQUIRED_FIELD_MISSING', 'PROCESSING_HALTED']);
    assert.equal(
      answers[0]?.body[0].message,
      'The transaction was rolled back since another operation in the same transaction failed.',
    );
    assert.equal(await count(), 0);
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
    await composite([collection('a', false)], { allOrNone: true });
    assert.equal(await count(), 1, 'outer true overrides inner false');
  });

  it('refuses the whole request for each rule that it breaks', async () => {
    const collection = { method: 'GET', url: `${DATA}/query?q=SELECT+Id+FROM+Quote__c` };
    const broken: object[][] = [
      [],
      Array.from({ length: 26 }, (_, index) => upsert(`r${index}`, `k${index}`)),
      Array.from({ length: 6 }, (_, index) => ({ ...collection, referenceId: `q${index}` })),
      [upsert('same', 'k1'), upsert('same', 'k2')],
      [upsert('not valid', 'k1')],
      [{ ...upsert('a', 'k1'), httpHeaders: { Authorization: 'Bearer x' } }],
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

describe('batch', () => {
  it('runs independent subrequests, each of them metered', async () => {
    await org.data('PATCH', '/sobjects/Quote__c/External_Id__c/k1', QUOTE);
    const before = (await org.control('GET', '/counters')).body.metered;
    const { body } = await org.data('POST', '/composite/batch', {
      batchRequests: [
        {
          method: 'PATCH',
          url: 'v62.0/sobjects/Quote__c/External_Id__c/k1',
          richInput: { Name__c: 'Porto' },
        },
        { method: 'GET', url: 'v62.0/sobjects/Quote__c/External_Id__c/k1?fields=Name__c' },
        { method: 'GET', url: '/services/data/v62.0/sobjects/Quote__c/External_Id__c/gone' },
      ],
    });
    assert.equal(body.hasErrors, true);
    assert.deepEqual(
      body.results.map((result: { statusCode: number }) => result.statusCode),
      [200, 200, 404],
    );
    assert.equal(body.results[1].result.Name__c, 'Porto');
    assert.equal((await org.control('GET', '/counters')).body.metered - before, 3);
  });

  it('takes at most 25', async () => {
    const batchRequests = Array.from({ length: 26 }, () => ({ method: 'GET', url: 'v62.0/limits' }));
    assert.equal((await org.data('POST', '/composite/batch', { batchRequests })).status, 400);
  });
});
