import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { assertProblem } from '../../../support/problems.ts';

const travelFile = join(import.meta.dirname, '../../../../simulators/salesforce/orgs/travel.mapping.yaml');

let own: OwnOrg;
let folder: string;
let gateway: TestGateway | undefined;
beforeEach(async () => {
  own = await startOwnOrg({ org: 'travel' });
  folder = await mkdtemp(join(tmpdir(), 'handoff-types-'));
  await own.trust(folder);
});
afterEach(async () => {
  await own.org.disarm();
  await gateway?.stop();
  gateway = undefined;
  await own.close();
  await rm(folder, { recursive: true });
});

async function start(change: (mapping: string) => string): Promise<TestGateway> {
  const file = join(folder, 'mapping.yaml');
  await writeFile(file, change(await readFile(travelFile, 'utf8')));
  gateway = await startGateway({ ...own.env, CRM_MAPPING_FILE: file, SECRETS_DIR: folder });
  return gateway;
}
const handOff = (at: TestGateway, type: string) =>
  at.request('/api/v1/handoff', { body: offerFor(own.org.memberId, { type }) });

for (const [what, developerName] of [
  ['that the user may not use', 'Legacy_Import'],
  ['that is not there', 'Nowhere'],
] as const)
  test(`no record gets another type in place of one ${what}`, async () => {
    const at = await start((mapping) =>
      mapping.replace('recordType: Travel', `recordType: ${developerName}`),
    );
    await eventually(
      async () => assert.ok((await (await at.request('/v1/docs')).text()).includes('Half board')),
      { everyMs: 50 },
    );
    const problem = await assertProblem(await handOff(at, 'quote'), 502, 'crm_error');
    assert.match(problem.detail, new RegExp(`RecordTypeId.*${developerName}`));
    assert.deepEqual(await own.org.records('Travel_Offer__c'), []);
    assert.equal((await handOff(at, 'booking')).status, 201);
  });

test('no record gets another type before the org has said which there are', async () => {
  const fault = await own.org.arm({
    match: { path: '/describe' },
    effect: { kind: 'hold' },
  });
  const at = await start((mapping) => mapping);
  await fault.hit();
  const answer = await handOff(at, 'quote');
  const records = await own.org.records('Travel_Offer__c');
  assert.ok(
    records.every(({ RecordTypeId }) => RecordTypeId !== null),
    JSON.stringify(records),
  );
  assert.equal(answer.status, 502, await answer.text());
});
