import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { descriptionFile, readDescription } from '../../../simulators/salesforce/org/read-description.ts';
import { startSalesforceSimulator } from '../../../simulators/salesforce/simulator.ts';

let dir: string;

before(() => {
  dir = mkdtempSync(join(tmpdir(), 'orgs-'));
});

after(() => rmSync(dir, { recursive: true }));

/** The faults of a description, each without the name of its file. */
function faultsOf(text: string): string[] {
  const file = join(dir, 'org.yaml');
  writeFileSync(file, text);
  try {
    readDescription(file);
    return [];
  } catch (error) {
    return (error as Error).message.split('\n').map((line) => line.replace(`${file}:`, ''));
  }
}

describe('the description of an org', () => {
  it('is read from the files that come with the simulator', () => {
    for (const name of ['default', 'travel']) {
      const { schema } = readDescription(descriptionFile(name));
      assert.ok(schema.find('Contact'), name);
    }
  });

  it('names all that is wrong in its structure, with line and column', () => {
    const faults = faultsOf(`currencies: { default: EUR }
objects:
  A__c:
    fields:
      B__c: { type: text, lenght: 5 }
      C__c: { type: list }
`);
    assert.deepEqual(
      faults.map((fault) => fault.slice(0, 66)),
      [
        '1:13: currencies must have required properties active',
        '5:35: objects.A__c.fields.B__c.lenght is unknown here',
        '6:21: objects.A__c.fields.C__c.type must be one of text, textarea,',
      ].map((fault) => fault.slice(0, 66)),
    );
  });

  it('names all that does not fit together', () => {
    const faults = faultsOf(`objects:
  A__c:
    fields:
      B__c: { type: reference, referenceTo: Nope__c }
      C__c: { type: checkbox, length: 5 }
    duplicateRules: [{ name: D, fields: [Z__c], action: alert }]
    validationRules:
      - { name: V, when: { field: X__c, equals: 1 }, message: 'no' }
    triggers:
      - { name: T, on: [beforeInsert], action: { kind: explode } }
members: { object: A__c, key: B__c, firstName: B__c, lastName: B__c, email: B__c, phone: Q__c }
`);
    assert.deepEqual(faults, [
      '5:39: objects.A__c.fields.C__c.length is no option of a field of type checkbox',
      '4:45: objects.A__c.fields.B__c.referenceTo names Nope__c, which is no object',
      '6:41: objects.A__c.duplicateRules.0.fields names Z__c, which is no field of A__c',
      '11:90: members.phone names Q__c, which is no field of A__c',
      '11:31: members.key names B__c, which is no external ID',
      '10:56: objects.A__c.triggers.0.action.kind must be one of throw, addError, lock, limit, flowFault, delay, set',
      '8:35: objects.A__c.validationRules.0.when.field must be a field of A__c',
    ]);
  });

  it('has members seeded also where the integration user may only read them', async () => {
    const file = join(dir, 'read-only.yaml');
    writeFileSync(
      file,
      `objects:
  Guest__c:
    plural: Guests
    name: { type: text, label: Guest }
    access: read
    fields:
      Key__c: { type: text, length: 36, unique: true, externalId: true }
      First__c: { type: text, length: 40, access: read }
      Mail__c: { type: email }
      Tel__c: { type: phone }
members: { object: Guest__c, key: Key__c, firstName: First__c, lastName: Name, email: Mail__c, phone: Tel__c }
`,
    );
    const { publicKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    const app = { clientId: 'a', username: 'a@example.com', publicKey };
    const org = await startSalesforceSimulator({ ...app, org: file, seed: { members: 2 } });
    const records = await (await fetch(`${org.url}/simulator/records/Guest__c`)).json();
    await org.close();
    assert.deepEqual(
      (records as Record<string, unknown>[]).map((record) => record['Key__c']),
      org.memberIds(2),
    );
  });

  it('names what is no YAML', () => {
    assert.match(faultsOf('objects:\n  A: [1, 2\n  B: 1\n')[0] ?? '', /^3:3: /);
  });

  it('adds to what a package declares, and removes', () => {
    const file = join(dir, 'more.yaml');
    const own = `objects:
  Quote__c: { fields: { Status__c: { access: read }, Actor__c: null, Note__c: { type: textarea } } }
  Booking__c: null
`;
    writeFileSync(file, own);
    const { schema } = readDescription(file, new URL('../../../salesforce', import.meta.url).pathname);
    const quote = schema.find('Quote__c');
    assert.equal(quote?.fields.get('status__c')?.updateable, false);
    assert.equal(quote?.fields.get('status__c')?.picklistValues.length, 4);
    assert.equal(quote?.fields.get('actor__c'), undefined);
    assert.equal(quote?.fields.get('note__c')?.length, 255);
    assert.equal(schema.find('Booking__c'), undefined);
  });
});
