import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type FetchedPackage, fetchPackage } from '../../support/fetched-package.ts';
import { assertion, DATA, type Parsed, startOrg, type TestOrg } from './org.ts';

/*
 * The client in wide use, as it is: what it understands, an application written for Salesforce understands. It is fetched when the
 * test runs, since it brings 42 packages. Where it cannot be fetched, the tests are skipped.
 */
const version = '3.10.26';
let fetched: FetchedPackage | undefined;
let org: TestOrg;
/** Its types are those of the package, which is not there when the project is compiled. */
let connection: Parsed;
let refreshed = 0;

before(async () => {
  fetched = await fetchPackage('jsforce', version);
  if (fetched === undefined) return;
  const { default: jsforce } = await fetched.load<{
    default: { Connection: new (options: object) => Parsed };
  }>();
  org = await startOrg({ seed: { members: 5 } });
  connection = new jsforce.Connection({ loginUrl: org.url, version: '62.0', refreshFn });
  await connection.authorize({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: await assertion(org.url),
  });
});
after(async () => {
  await fetched?.[Symbol.asyncDispose]();
  if (fetched) await org.close();
});
beforeEach(async () => {
  if (fetched) await org.control('POST', '/reset');
});

const it = (what: string, act: () => Promise<void>) =>
  void test(what, async (context) =>
    fetched ? act() : context.skip(`jsforce@${version} could not be fetched`),
  );

type Done = (error: Error | null, token?: string) => void;

async function refresh(): Promise<string> {
  refreshed += 1;
  return org.login();
}

function refreshFn(_connection: unknown, done: Done): void {
  // eslint-disable-next-line promise/no-callback-in-promise -- the client takes its token by callback only
  refresh().then((token) => done(null, token), done);
}

const quote = (key: string, more: object = {}) => ({
  External_Id__c: key,
  Name__c: `Trip ${key}`,
  Source__c: 'flights',
  ...more,
});
const quotes = () => connection.sobject('Quote__c');
/** The client's result types are unions that each test knows better. */
const loose = (value: unknown): Parsed => value;

describe('jsforce', () => {
  it('logs in with an assertion and learns who it is', async () => {
    assert.equal(connection.instanceUrl, org.url);
    assert.match(connection.userInfo?.id ?? '', /^005/);
    const identity = await connection.identity();
    assert.equal(identity.display_name, 'Gateway Integration');
    assert.match(identity.organization_id, /^00D/);
  });

  it('creates, retrieves, updates and deletes a record', async () => {
    const created = loose(await quotes().create(quote('a')));
    assert.equal(created.success, true);
    assert.equal(loose(await quotes().retrieve(created.id)).Name__c, 'Trip a');
    assert.equal(loose(await quotes().update({ Id: created.id, Name__c: 'changed' })).success, true);
    assert.equal(loose(await quotes().retrieve(created.id)).Name__c, 'changed');
    assert.equal(loose(await quotes().destroy(created.id)).success, true);
    await assert.rejects(quotes().retrieve(created.id), { errorCode: 'ENTITY_IS_DELETED' });
  });

  it('understands errors by their code', async () => {
    await quotes().create(quote('a'));
    await assert.rejects(loose(quotes()).create(quote('a')), { errorCode: 'DUPLICATE_VALUE' });
    await assert.rejects(loose(quotes()).create({ nope: 1 }), { errorCode: 'INVALID_FIELD' });
    await assert.rejects(loose(connection).query('SELECT Nope FROM Quote__c'), {
      errorCode: 'INVALID_FIELD',
    });
    await assert.rejects(loose(connection).query('SELECT Id FROM Nope__c'), { errorCode: 'INVALID_TYPE' });
  });

  it('writes collections with an outcome for each record', async () => {
    const records = Array.from({ length: 200 }, (_, index) => quote(`k${index}`));
    const created = loose(await quotes().create(records));
    assert.equal(created.length, 200);
    await assert.rejects(quotes().create([...records, quote('k200')]), { errorCode: 'EXCEEDED_ID_LIMIT' });
    const mixed = loose(await quotes().create([quote('k1'), quote('fresh')]));
    assert.deepEqual(
      mixed.map((item: { success: boolean }) => item.success),
      [false, true],
    );
    assert.equal(mixed[0].errors[0].statusCode, 'DUPLICATE_VALUE');
    const all = loose(await quotes().create([quote('k1'), quote('fresh2')], { allOrNone: true }));
    assert.ok(all.every((item: { success: boolean }) => !item.success));
    const updates = created.slice(0, 3).map((item: { id: string }) => ({ Id: item.id, Name__c: 'changed' }));
    assert.ok(loose(await quotes().update(updates)).every((item: { success: boolean }) => item.success));
    const ids = created.map((item: { id: string }) => item.id);
    assert.ok(loose(await quotes().destroy(ids)).every((item: { success: boolean }) => item.success));
    assert.equal((await connection.query('SELECT Id FROM Quote__c')).totalSize, 1);
  });

  it('sees deleted records with queryAll, and late ones behind their stamp', async () => {
    const created = loose(await quotes().create([quote('a'), quote('b')]));
    await quotes().destroy(created[0].id);
    const soql = 'SELECT External_Id__c, IsDeleted, SystemModstamp FROM Quote__c ORDER BY External_Id__c';
    const read = async (scanAll: boolean) =>
      loose(await connection.query(soql, { scanAll })).records.map((row: Parsed) => [
        row.External_Id__c,
        row.IsDeleted,
      ]);
    assert.deepEqual(await read(false), [['b', false]]);
    const both = [
      ['a', true],
      ['b', false],
    ];
    assert.deepEqual(await read(true), both);
    // One Composite call may hold several.
    const url = `${DATA}/queryAll?q=${encodeURIComponent(soql)}`;
    const parts = ['one', 'two'].map((referenceId) => ({ method: 'GET', url, referenceId }));
    const composite = await connection.requestPost(`${DATA}/composite`, { compositeRequest: parts });
    assert.deepEqual(
      composite.compositeResponse.map(({ body }: Parsed) => body.totalSize),
      [2, 2],
    );

    await org.control('POST', '/records/Quote__c/undelete?External_Id__c=a');
    assert.deepEqual(await read(false), [['a', false], both[1]]);
    const before = '2026-01-02T03:04:05.000+0000';
    await org.control('PATCH', '/records/Quote__c?External_Id__c=a', { SystemModstamp: before });
    const late = { match: { operation: 'update' }, effect: { kind: 'lateCommit', ms: 3_600_000 } };
    await org.control('POST', '/faults', late);
    const now = Date.now();
    await quotes().update({ Id: created[1].id, Name__c: 'late' });
    const stamps = loose(await connection.query(soql)).records.map((row: Parsed) => row.SystemModstamp);
    assert.equal(stamps[0], before);
    assert.ok(Date.parse(stamps[1]) <= now - 3_599_000);
  });

  it('queries page by page, by hand and by itself', async () => {
    await org.control(
      'POST',
      '/records/Quote__c',
      Array.from({ length: 4500 }, (_, index) => quote(`k${index}`)),
    );
    const first = await connection.query('SELECT Id, External_Id__c FROM Quote__c');
    assert.deepEqual([first.totalSize, first.done, first.records.length], [4500, false, 2000]);
    const second = await connection.queryMore(first.nextRecordsUrl ?? '');
    const third = await connection.queryMore(second.nextRecordsUrl ?? '');
    assert.deepEqual([second.records.length, third.records.length, third.done], [2000, 500, true]);
    const all = await connection.query('SELECT Id FROM Quote__c', { autoFetch: true, maxFetch: 10_000 });
    assert.equal(new Set(all.records.map((row: Parsed) => row.Id)).size, 4500);
  });

  it('finds by its own query builder', async () => {
    const members = org.simulator.memberIds(2);
    await quotes().create(members.map((key) => quote(key, { Member__r: { External_Id__c: key } })));
    const found = loose(
      await loose(quotes())
        .find({
          'Member__r.External_Id__c': members[0],
          Name__c: { $like: 'Trip %' },
          CreatedDate: { $ne: null },
        })
        .select('Id, Name__c, Member__r.LastName')
        .sort({ CreatedDate: -1 })
        .limit(5),
    );
    assert.equal(found.length, 1);
    assert.equal(found[0].Member__r.LastName, 'Okafor');
    assert.equal(await loose(quotes()).count({ Source__c: 'flights' }), 2);
  });

  it('describes objects and reads limits', async () => {
    const { fields } = await connection.describe('Quote__c');
    assert.equal(fields.find((field: Parsed) => field.name === 'External_Id__c')?.externalId, true);
    const limits = loose(await connection.limits());
    assert.equal(limits.DailyApiRequests.Max, 100_000);
    assert.equal(connection.limitInfo.apiUsage?.limit, 100_000);
    const versions = loose(await connection.request('/services/data'));
    assert.equal(versions.at(-1).version, '68.0');
  });

  it('sends composite requests', async () => {
    const answer = loose(
      await connection.requestPost(`${DATA}/composite`, {
        compositeRequest: [
          {
            method: 'POST',
            url: `${DATA}/sobjects/Quote__c`,
            referenceId: 'q',
            body: quote('a'),
          },
          {
            method: 'GET',
            url: `${DATA}/query?q=SELECT+External_Id__c+FROM+Quote__c`,
            referenceId: 'r',
          },
        ],
      }),
    );
    assert.equal(answer.compositeResponse[1].body.records[0].External_Id__c, 'a');
  });

  it('obtains a new token when its own has ended, and repeats the call', async () => {
    const before = refreshed;
    await org.control('POST', '/tokens/revoke');
    assert.equal((await connection.query('SELECT Id FROM Contact')).totalSize, 5);
    assert.equal(refreshed, before + 1);
  });
});
