import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import { startGateway } from '../../../support/gateway.ts';
import { type AcceptedHandoff, accept, offerFor } from '../../../support/handoffs.ts';
import { startOwnOrg } from '../../../support/own-org.ts';
import { usePostgres } from '../../../support/postgres.ts';

const travelFile = join(import.meta.dirname, '../../../../simulators/salesforce/orgs/travel.mapping.yaml');

const postgres = await usePostgres();

test('an accepted hand-off that the CRM has is created, whatever the mapping says by then', {
  skip: !postgres && 'no PostgreSQL',
}, async (t) => {
  const own = await startOwnOrg({ org: 'travel' });
  const folder = await mkdtemp(join(tmpdir(), 'handoff-mapping-'));
  t.after(() => rm(folder, { recursive: true }));
  t.after(() => own.close());
  await own.trust(folder);
  const file = join(folder, 'mapping.yaml');
  const mapping = await readFile(travelFile, 'utf8');
  await writeFile(file, mapping);
  const env = {
    ...own.env,
    CRM_MAPPING_FILE: file,
    SECRETS_DIR: folder,
    DATABASE_URL: postgres?.url,
    SHUTDOWN_SECONDS: '1',
  };
  const before = await startGateway(env);
  await eventually(
    async () => assert.ok((await (await before.request('/v1/docs')).text()).includes('Half board')),
    { everyMs: 50 },
  );
  // The record is made, and nobody learns of it.
  const lost = await own.org.arm({
    match: { operation: 'create' },
    effect: { kind: 'loseAnswer' },
    times: 1,
  });
  await own.org.arm({ match: { path: '/query' }, effect: { kind: 'down' } });
  const { result } = offerFor(own.org.memberId, {
    result: { name: 'Hotel', source: 's', details: { nights: 3 } },
  });
  const id = await accept({ ...before, org: own.org }, { result });
  await lost.hit();
  await before.stop();
  await own.org.disarm();
  await writeFile(file, mapping.replace('/result/details/nights', '/result/name'));
  const gateway = await startGateway(env);
  t.after(() => gateway.stop());
  const read = async () =>
    (await (await gateway.request(`/v1/handoffs/${id}`, { as: before.console })).json()) as AcceptedHandoff;
  let handoff = await read();
  for (; handoff.status === 'accepted'; handoff = await read()) await sleep(50);
  assert.equal(handoff.status, 'created', JSON.stringify(handoff));
  assert.equal((await own.org.records('Travel_Offer__c')).length, 1);
});
