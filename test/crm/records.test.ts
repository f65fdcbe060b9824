import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe } from 'node:test';
import { type Resources, resourcesOf } from '../../src/records/mapping.ts';
import { parseMapping } from '../../src/records/mapping-file.ts';
import { recordsConformance } from '../conformance/records.ts';
import { aCall, startCrmHarness } from './crm-harness.ts';
import { insertInto, type OrgUnderTest, orgRecords } from './org-records.ts';

/** The resources of the org of a travel agency, in which nothing has a name of the package. */
function travelResources(): Resources {
  const file = new URL('../../simulators/salesforce/orgs/travel.mapping.yaml', import.meta.url);
  const parsed = parseMapping(readFileSync(file, 'utf8'));
  assert.ok('mapping' in parsed, JSON.stringify(parsed));
  return resourcesOf(parsed.mapping);
}

const orgs: [name: string, resources: Resources, required: OrgUnderTest['required']][] = [
  ['default', resourcesOf(), {}],
  ['travel', travelResources(), { quote: { Channel__c: 'Branch' }, booking: { Office__c: 'Porto' } }],
];

for (const [org, resources, required] of orgs) {
  describe(`records of the org ${org}`, () => {
    let underTest: OrgUnderTest;
    before(async () => {
      underTest = { harness: await startCrmHarness({ resources }, { org }), resources, required };
      const { schema } = underTest.harness.crm;
      schema.apply(await schema.describe(aCall()));
    });
    after(() => underTest.harness.stop());

    orgRecords(() => underTest);
    recordsConformance(() => ({
      records: underTest.harness.crm.records,
      resources,
      memberId: underTest.harness.memberId,
      aCall,
      insert: (resource, rows) => insertInto(underTest, resource, rows),
    }));
  });
}
