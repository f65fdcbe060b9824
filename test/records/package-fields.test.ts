import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { children, childText } from '../../salesforce/check/package-files.ts';
import { readSchema } from '../../salesforce/check/schema.ts';
import { listOf, resourcesOf } from '../../src/records/mapping.ts';

/*
 * A field is declared in src/records, and the org has it by the package: without its column every read of the record fails, and
 * without the permission the gateway does not see it.
 */

const { fields, permissionSets } = readSchema(join(import.meta.dirname, '../../salesforce'));
const set = permissionSets.find(({ file }) => file.endsWith('/Handoff_Gateway.permissionset-meta.xml'));
const granted = new Set(children(set?.root, 'fieldPermissions').map((one) => childText(one, 'field')));

for (const { name: resource, crmObject, fields: declared } of listOf(resourcesOf()))
  describe(`the package has for ${resource}`, () => {
    for (const [field, { crm }] of Object.entries(declared)) {
      const { path, lookupColumn, continuations = [] } = crm;
      const columns = [lookupColumn ?? path, ...continuations].filter((column) => column.endsWith('__c'));
      if (columns.length === 0) continue;
      test(field, () => {
        for (const column of columns) {
          const found = fields.get(`${crmObject}.${column}`);
          const folder = `salesforce/force-app/main/default/objects/${crmObject}/fields`;
          assert.ok(found, `Add ${folder}/${column}.field-meta.xml, like one of its neighbours.`);
          const isSeen = found.required || granted.has(`${crmObject}.${column}`);
          assert.ok(isSeen, `Add ${crmObject}.${column} to ${set?.file}.`);
        }
      });
    }
  });
