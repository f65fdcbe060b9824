import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { CommandLine } from '../support/command-line.ts';

const commands = new CommandLine();
let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'handoff-odd-org-'));
});
after(async () => {
  commands.stop();
  await rm(folder, { recursive: true });
});

function org(args: readonly string[], described: string) {
  const env = { DATA_DIR: join(folder, 'data', basename(described)), SIMULATED_ORG: described };
  return commands.run(['org', ...args], { env });
}

async function write(name: string, text: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, text);
  return file;
}

const key = '{ type: text, length: 36, unique: true, externalId: true }';

/** Whose fields have the API's own words for names, fit twice, or are none of the API's; with a look-alike of each object. */
const odd = `
objects:
  acme__Guest__c:
    plural: Guests
    name: { type: text, label: Guest }
    fields: { acme__Key__c: ${key}, acme__Mail__c: { type: email } }
  Old_Profile__c:
    plural: Profiles
    name: { type: text, label: Profile }
    fields: { Mail__c: { type: email } }
  Aaa_Offer__c:
    plural: Old offers
    name: { type: text, label: Offer }
    fields:
      Key__c: ${key}
      Guest__c: { type: reference, referenceTo: acme__Guest__c, children: OldOffers }
      Scan__c: { type: longtext, length: 32768 }
  acme__Offer__c:
    plural: Offers
    name: { type: autonumber, format: "O-{0000}", label: Number }
    fields:
      acme__Key__c: ${key}
      acme__Any__c: { type: reference, referenceTo: [acme__Guest__c, Account], children: AnyOffers }
      acme__Guest__c: { type: reference, referenceTo: acme__Guest__c, children: Offers }
      Vendor_Trip_Ref__c: { type: text, length: 40 }
      Title__c: { type: text, length: 80 }
      acme__Details__c: { type: longtext, length: 32768 }
      Include__c: { type: text, length: 40, required: true }
      Limit__c: { type: text, length: 40, required: true }
      A_Field_Name_That_Has_Forty_Characters_X__c: { type: text, length: 40, required: true }
      A_Field_Name_That_Has_Forty_Characters_Y__c: { type: text, length: 40, required: true }
      Constructor__c: { type: text, length: 40 }
      Office__c: { type: reference, referenceTo: Account, children: OfficeOffers, required: true }
  Reservation__c:
    plural: Reservations
    name: { type: text, label: Reservation }
    fields:
      Key__c: ${key}
      Guest__c: { type: reference, referenceTo: acme__Guest__c, children: Reservations }
      Trip__c: { type: text, length: 36 }
      Content__c: { type: longtext, length: 32768 }
`;

interface Proposed {
  object: string;
  fields: Record<string, unknown>;
  add: Record<string, { field: string }>;
}

describe('handoff org map of an odd org', () => {
  test('names what no mapping could, and uses no field twice', async () => {
    const described = await write('odd.yaml', odd);
    const { stdout } = await org(['map'], described);
    const { quote } = (parse(stdout) as { resources: Record<string, Proposed> }).resources;
    assert.deepEqual(
      [quote?.fields['trip_id'], quote?.fields['source'], quote?.fields['member_id']],
      ['Vendor_Trip_Ref__c', null, 'acme__Guest__r'],
    );
    assert.deepEqual(
      Object.entries(quote?.add ?? {}).map(([name, { field }]) => `${name} ${field}`),
      [
        'org_include Include__c',
        'org_limit Limit__c',
        'a_field_name_that_has_forty_characters_x A_Field_Name_That_Has_Forty_Characters_X__c',
        'a_field_name_that_has_forty_characters_y A_Field_Name_That_Has_Forty_Characters_Y__c',
      ],
    );
    assert.match(stdout, /# {3}org_constructor: /);
    assert.match(stdout, /API can't carry them: .*\n {4}# set:\n {4}# {3}Office__c: …\n/);
    const mapping = await write('odd.mapping.yaml', stdout);
    const { code, stdout: checked } = await org(['check', '--mapping', mapping], described);
    assert.deepEqual(
      [code, checked],
      [
        1,
        "acme__Offer__c.Office__c is required in new records, but the mapping doesn't set it. Set a value for all records under `set`, or make it optional in the org.\n",
      ],
    );
  });

  test('takes the object with the most fields of those that look alike, and names the others', async () => {
    const { stdout } = await org(['map'], await write('alike.yaml', odd));
    assert.match(stdout, /object: acme__Guest__c # .*; others like it: .*Old_Profile__c/);
    assert.match(stdout, /object: acme__Offer__c # .* suggests a quote; others like it: Aaa_Offer__c\n/);
    assert.match(stdout, /object: Reservation__c # .* suggests a booking\n/);
  });

  test('looks at likely objects first, and names those that it did not look at', async () => {
    const more = Array.from(
      { length: 520 },
      (_, index) => `  Aaa${index}__c: { plural: As, name: { type: text, label: A }, fields: {} }\n`,
    );
    const described = await write('big.yaml', odd + more.join(''));
    const { stdout } = await org(['map'], described);
    assert.match(stdout, /object: acme__Offer__c/);
    assert.match(
      stdout,
      /^# Too many objects; these weren't looked at: (Aaa\d+__c, ){19}Aaa\d+__c and 7 more\.$/m,
    );
    const json = await org(['map', '--json'], described);
    const { not_looked_at: unseen } = JSON.parse(json.stdout) as { not_looked_at: string[] };
    assert.ok(unseen.length > 10 && unseen.every((name) => name.startsWith('Aaa')));
  });
});

const managed = `
version: 1
resources:
  member: { object: acme__Guest__c, fields: { id: acme__Key__c, first_name: null, last_name: null, email: acme__Mail__c, phone: null } }
  quote:
    object: acme__Offer__c
    fields:
      id: acme__Key__c
      trip_id: Trip_Ref__c
      member_id: acme__Guest__r
      name: Name
      source: acme__Vendor__c
      details: acme__Details__c
      status: null
      consumer_id: null
      consumer_name: null
      actor: null
    set: { acme__Office__c: Rome }
  booking:
    object: acme__Booking__c
    fields:
      id: Key__c
      trip_id: Trip__c
      member_id: Guest__r
      name: Name
      source: null
      details: Content__c
      status: null
      consumer_id: null
      consumer_name: null
      actor: null
`;

describe('with a mapping of a managed package that is not installed in full', () => {
  let described: string;
  let mapping: string;
  before(async () => {
    described = await write('managed.yaml', odd);
    mapping = await write('managed.mapping.yaml', managed);
  });

  test('handoff org package writes nothing that only its vendor can make', async () => {
    const out = join(folder, 'package');
    const { stdout } = await org(['package', '--json', '--out', out, '--mapping', mapping], described);
    const { left } = JSON.parse(stdout) as { left: string[] };
    assert.deepEqual(
      left.map((line) => line.split(', so ')[0]),
      ['acme__Offer__c.acme__Vendor__c', 'acme__Offer__c.acme__Office__c', 'acme__Booking__c'].map(
        (name) => `${name}: it belongs to a managed package`,
      ),
    );
    const files = (await readdir(out, { recursive: true })).filter((path) => path.includes('objects/'));
    assert.deepEqual(
      files.filter((path) => path.endsWith('.xml')).map((path) => basename(path)),
      ['Trip_Ref__c.field-meta.xml'],
    );
    const permissions = await readFile(
      join(out, 'force-app/main/default/permissionsets/Handoff_Gateway.permissionset-meta.xml'),
      'utf8',
    );
    assert.doesNotMatch(permissions, /acme__Booking__c|acme__Vendor__c|acme__Office__c/);
    assert.match(permissions, /acme__Offer__c\.Trip_Ref__c/);
  });

  test('handoff org check says what helps: another field for a number, the package for its fields', async () => {
    const { stdout } = await org(['check', '--mapping', mapping], described);
    assert.match(
      stdout,
      /^acme__Offer__c\.Name is an auto-number, which nobody can write\. Name another field in the mapping\./m,
    );
    assert.match(
      stdout,
      /^acme__Offer__c\.acme__Vendor__c doesn't exist, .*\. It belongs to a managed package: install/m,
    );
    assert.match(stdout, /^acme__Booking__c doesn't exist, .*\. It belongs to a managed package: install/m);
    assert.match(
      stdout,
      /^acme__Offer__c\.Trip_Ref__c doesn't exist, .*\. Create it with `handoff org package`/m,
    );
  });
});
