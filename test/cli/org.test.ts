import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { packageXml, readComponents } from '../../salesforce/check/components.ts';
import { checkElements } from '../../salesforce/check/elements.ts';
import { readProject } from '../../salesforce/check/package-files.ts';
import { checkWellFormed } from '../../salesforce/check/well-formed.ts';
import { CommandLine } from '../support/command-line.ts';

const commands = new CommandLine();
let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'handoff-org-'));
});
after(async () => {
  commands.stop();
  await rm(folder, { recursive: true });
});

function org(args: readonly string[], simulated = 'travel', settings: Record<string, string> = {}) {
  const env = {
    ...settings,
    DATA_DIR: join(folder, 'data', basename(simulated)),
    SIMULATED_ORG: simulated,
  };
  return commands.run(['org', ...args], { env });
}

/** What a mapping of the travel org says, with other things missing. */
const incomplete = `
version: 1
resources:
  quote:
    object: Deal_Offer__c
    fields: { name: Name, details: [Body__c, Body_2__c], status: null }
    set: { Region__c: EU }
    add:
      budget: { field: Budget__c, access: write }
  booking:
    object: Trip_Booking__c
    fields:
      id: My_Key__c
      trip_id: Trip_Ref__c
      member_id: Traveller__r
      name: Title__c
      source: Supplier__c
      details: Payload__c
      status: Progress__c
      consumer_id: null
      consumer_name: null
      actor: null
    set: { RecordTypeId: { recordType: single_service } }
  member:
    object: Traveller__c
    fields: { id: Member_Key__c, first_name: null, last_name: Family_Name__c, email: null, phone: null }
`;

/** Whose status fields go by other names, and which requires what the API has no field for. */
const ferries = `
objects:
  Passenger__c:
    plural: Passengers
    name: { type: text, label: Passenger }
    access: read
    fields:
      Key__c: { type: text, length: 36, unique: true, externalId: true }
      Mail__c: { type: email }
  Ferry_Quote__c:
    plural: Ferry Quotes
    name: { type: text, label: Quote }
    fields:
      Key__c: { type: text, length: 36, unique: true, externalId: true }
      Trip__c: { type: text, length: 36 }
      Passenger__c: { type: reference, referenceTo: Passenger__c, children: Quotes }
      Heading__c: { type: text, length: 200, required: true }
      Terms__c: { type: longtext, length: 131072 }
      Raw_Content__c: { type: longtext, length: 131072 }
      Short_Extract__c: { type: longtext, length: 32000 }
      Overflow__c: { type: longtext, length: 131072 }
      Status__c: { type: picklist, restricted: true, required: true, values: [Open, Closed] }
      Lifecycle__c: { type: picklist, restricted: true, values: [created, sold] }
      Rail_Class__c: { type: picklist, restricted: true, required: true, values: [First, Second] }
      Deposit__c: { type: currency, precision: 10, scale: 2, required: true }
  Ferry_Booking__c:
    plural: Ferry Bookings
    name: { type: text, label: Booking }
    fields:
      Key__c: { type: text, length: 36, unique: true, externalId: true }
      Trip__c: { type: text, length: 36 }
      Passenger__c: { type: reference, referenceTo: Passenger__c, children: Bookings }
      Content__c: { type: longtext, length: 131072 }
      Status__c: { type: picklist, restricted: true, values: [created, gone] }
      Reservation_Phase__c:
        { type: picklist, restricted: true, values: [created, pending, confirmed, cancelled, gone] }
`;

/** Field by field what `ferries` has. */
const ferriesMapping = `
version: 1
resources:
  member:
    object: Passenger__c
    fields: { id: Key__c, first_name: null, last_name: null, email: Mail__c, phone: null }
  quote:
    object: Ferry_Quote__c
    fields:
      id: Key__c
      trip_id: Trip__c
      member_id: Passenger__r
      name: Heading__c
      source: null
      details: [Raw_Content__c, Overflow__c]
      status: Lifecycle__c
      consumer_id: null
      consumer_name: null
      actor: null
    set: { Status__c: Open, Rail_Class__c: First, Deposit__c: 0 }
  booking:
    object: Ferry_Booking__c
    fields:
      id: Key__c
      trip_id: Trip__c
      member_id: Passenger__r
      name: Name
      source: null
      details: Content__c
      status: Reservation_Phase__c
      consumer_id: null
      consumer_name: null
      actor: null
`;
const tooShort = (object: string) =>
  `${object}.Key__c holds 30 characters, but needs 36. Make the field longer in the org, or name another one in the mapping.`;

interface ProposedResource {
  fields: Record<string, unknown>;
  set?: object;
  add?: object;
}

describe('handoff org map', () => {
  for (const simulated of ['travel', 'default']) {
    test(`proposes a mapping of the ${simulated} org that needs no edit`, async () => {
      const file = join(folder, `${simulated}.yaml`);
      const written = await org(['map', '--write', file], simulated);
      assert.deepEqual([written.code, written.stderr], [0, '']);
      const checked = await org(['check', '--mapping', file], simulated);
      assert.deepEqual([checked.code, checked.stderr], [0, '']);
      assert.match(checked.stdout, /^The org has everything the gateway needs in .*\n$/);
    });
  }

  test('finds each field of the travel org, and says why', async () => {
    const { stdout } = await org(['map']);
    const { resources } = parse(stdout) as { resources: Record<string, Record<string, unknown>> };
    assert.equal(resources['member']?.['object'], 'Traveller__c');
    assert.deepEqual(resources['quote'], {
      object: 'Travel_Offer__c',
      fields: {
        id: 'Gateway_Key__c',
        trip_id: 'Trip_Ref__c',
        member_id: 'Traveller__r',
        name: 'Name',
        source: 'Supplier__c',
        details: ['Payload__c', ...[2, 3, 4, 5, 6, 7, 8].map((part) => `Payload_${part}__c`)],
        status: 'Stage__c',
        consumer_id: 'Gateway_Consumer__c',
        consumer_name: null,
        actor: null,
      },
      add: {
        channel: { field: 'Channel__c', access: 'write', required: true, from: '/result/details/channel' },
      },
    });
    assert.equal(resources['booking']?.['object'], 'Trip_Booking__c');
    assert.match(stdout, /member_id: Traveller__r # looks up Traveller__c/);
    assert.match(stdout, /# {3}budget: \{ field: Budget__c, access: read \}/);
  });

  test('of another org takes the picklist with the values, each long text, and what is required', async () => {
    const described = join(folder, 'ferries.yaml');
    await writeFile(described, ferries);
    const { stdout } = await org(['map'], described);
    const { quote, booking } = (parse(stdout) as { resources: Record<string, ProposedResource> }).resources;
    assert.deepEqual(
      [quote?.fields['status'], booking?.fields['status']],
      ['Lifecycle__c', 'Reservation_Phase__c'],
    );
    assert.deepEqual(quote?.fields['details'], ['Raw_Content__c', 'Overflow__c']);
    assert.match(stdout, /others you can add: Terms__c \(131072\), Short_Extract__c \(32000\)\n/);
    assert.equal(quote?.fields['name'], 'Heading__c');
    assert.equal(quote?.set, undefined);
    const required = (field: string, name: string) => ({
      ...{ field, access: 'write', required: true },
      from: `/result/details/${name}`,
    });
    assert.deepEqual(quote?.add, {
      org_status: required('Status__c', 'org_status'),
      rail_class: required('Rail_Class__c', 'rail_class'),
      deposit: required('Deposit__c', 'deposit'),
    });
    const file = join(folder, 'ferries.mapping.yaml');
    await writeFile(file, stdout);
    const checked = await org(['check', '--mapping', file], described);
    assert.match(checked.stdout, /^The org has everything the gateway needs in /);
  });

  test('writes over no file', async () => {
    const file = join(folder, 'kept.yaml');
    await writeFile(file, 'mine');
    const { code, stderr } = await org(['map', '--write', file]);
    assert.equal(code, 2);
    assert.match(stderr, /Couldn't write .*: EEXIST/);
    assert.equal(await readFile(file, 'utf8'), 'mine');
  });
});

test('handoff org inspect lists objects, and the fields of one', async () => {
  const all = await org(['inspect', '--json']);
  const { objects } = JSON.parse(all.stdout) as { objects: { object: string; label: string }[] };
  assert.ok(objects.some(({ object, label }) => object === 'Travel_Offer__c' && label === 'Travel Offer'));
  const one = await org(['inspect', 'travel_offer__c', '--json']);
  const { fields } = JSON.parse(one.stdout) as { fields: Record<string, unknown>[] };
  assert.deepEqual(
    fields.find(({ name }) => name === 'Gateway_Key__c'),
    {
      name: 'Gateway_Key__c',
      type: 'string(36)',
      values: [],
      required: false,
      writable: true,
      unique: true,
      external_id: true,
    },
  );
  const channel = fields.find(({ name }) => name === 'Channel__c');
  assert.equal(channel?.['required'], true);
  assert.deepEqual(channel?.['values'], ['Partner', 'Branch', 'Telephone']);
  const types = fields.find(({ name }) => name === 'RecordTypeId');
  assert.deepEqual(types?.['values'], ['Travel', 'Corporate']);
  const none = await org(['inspect', 'Nowhere__c']);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /The org has no object Nowhere__c/);
});

describe('an org that lacks what the service needs', () => {
  const orgs = {
    'has nothing but what every org has': '{}',
    'has objects without keys and long text': `
objects:
  Guest__c:
    plural: Guests
    name: { type: text, label: Guest }
    access: read
    fields: { Mail__c: { type: email }, Forename__c: { type: text, length: 40 } }
  Course_Quotation__c:
    plural: Quotations
    name: { type: autonumber, format: "Q-{0000}", label: Number }
    fields:
      Guest__c: { type: reference, referenceTo: Guest__c, children: Quotations }
      Voyage__c: { type: text, length: 50 }
      Level__c: { type: picklist, restricted: true, required: true, values: [Blue, Red] }
`,
  };
  for (const [index, [name, text]] of Object.entries(orgs).entries())
    test(`${name}: what is proposed and deployed fits`, async () => {
      const [before, after, mapping, out] = ['before.yaml', 'after.yaml', 'mapping.yaml', 'package'].map(
        (file) => join(folder, `lacking-${index}-${file}`),
      ) as [string, string, string, string];
      await writeFile(before, text);
      const proposed = await org(['map', '--write', mapping], before);
      assert.deepEqual([proposed.code, proposed.stderr], [0, '']);
      const missing = await org(['check', '--mapping', mapping], before);
      assert.equal(missing.code, 1);
      assert.match(missing.stdout, /handoff org package/);
      const { stdout } = await org(['package', '--json', '--out', out, '--mapping', mapping], before);
      assert.deepEqual((JSON.parse(stdout) as { left: string[] }).left, []);
      await writeFile(after, `${text.replace('{}', '')}\npackage: ${out}\n`);
      const checked = await org(['check', '--mapping', mapping], after);
      assert.match(checked.stdout, /^The org has everything the gateway needs in /);
    });

  test('keeps its own objects in the proposal', async () => {
    const { stdout } = await org(['map'], join(folder, 'lacking-1-before.yaml'));
    const { member, quote } = (parse(stdout) as { resources: Record<string, { fields: object }> }).resources;
    assert.deepEqual(
      [member?.fields, quote?.fields],
      [
        { id: 'External_Id__c', first_name: 'Forename__c', last_name: null, email: 'Mail__c', phone: null },
        {
          ...{
            id: 'External_Id__c',
            trip_id: 'Voyage__c',
            member_id: 'Guest__r',
            name: 'Name__c',
            source: null,
          },
          ...{ details: 'Details__c', status: null, consumer_id: null, consumer_name: null, actor: null },
        },
      ],
    );
  });
});

describe('with a mapping that the org does not fit', () => {
  let file: string;
  before(async () => {
    file = join(folder, 'incomplete.yaml');
    await writeFile(file, incomplete);
  });

  test('handoff org check names each fault and what to do', async () => {
    const { code, stdout } = await org(['check', '--json', '--mapping', file]);
    assert.equal(code, 1);
    const { ok, problems } = JSON.parse(stdout) as {
      ok: boolean;
      problems: { object: string; field: string | null; advice: string }[];
    };
    assert.equal(ok, false);
    assert.deepEqual(
      problems.map(({ object, field }) => [object, field]),
      [
        ['Deal_Offer__c', null],
        ['Trip_Booking__c', 'My_Key__c'],
        ['Trip_Booking__c', 'Office__c'],
      ],
    );
    assert.match(problems[2]?.advice ?? '', /under `set`/);
  });

  test('handoff org check names owners that are not there, each once', async () => {
    const mapping = join(folder, 'owners.mapping.yaml');
    await writeFile(
      mapping,
      `version: 1
resources:
  quote: {owner: {match: Email, else: {queue: No_Such_Queue}}}
  booking: {owner: {match: Email, else: {user: nobody@example.com}}}
`,
    );
    const { code, stdout } = await org(['check', '--json', '--mapping', mapping], 'default');
    assert.equal(code, 1, stdout);
    const { problems } = JSON.parse(stdout) as { problems: { object: string; problem: string }[] };
    assert.deepEqual(
      problems.map(({ object, problem }) => `${object} ${problem}`),
      [
        "User can't provide owners: The mapping names the queue No_Such_Queue as an owner, but there is no such queue",
        "User can't provide owners: The mapping names nobody@example.com as an owner, but there is no such active user",
      ],
    );
  });

  test('handoff org check says that View All Records is missing, of members too', async () => {
    const described = join(folder, 'blind.yaml');
    const objects = '{Quote__c: {viewAll: false}, Contact: {viewAll: false}}';
    await writeFile(described, `package: ${resolve('salesforce')}\nobjects: ${objects}\n`);
    const { code, stdout } = await org(['check'], described);
    assert.equal(code, 1, stdout);
    for (const object of ['Contact', 'Quote__c'])
      assert.match(
        stdout,
        new RegExp(
          `^${object} isn't fully visible: .* lacks View All Records, .*\\. Assign the permission`,
          'm',
        ),
      );
  });

  test('handoff org check names a key that is too short, and a status without the values that are written', async () => {
    const described = join(folder, 'short.yaml');
    const text = ferries
      .replaceAll(/Key__c: \{ type: text, length: 36/g, 'Key__c: { type: text, length: 30')
      .replace('[created, pending, confirmed, cancelled, gone]', '[created, confirmed]')
      .replace('[created, sold]', '[offered, sold]');
    await writeFile(described, text);
    const mapping = join(folder, 'short.mapping.yaml');
    await writeFile(mapping, ferriesMapping);
    const { code, stdout } = await org(['check', '--mapping', mapping], described);
    assert.equal(code, 1);
    assert.deepEqual(stdout.trimEnd().split('\n'), [
      ...['Passenger__c', 'Ferry_Quote__c'].map(tooShort),
      "Ferry_Quote__c.Lifecycle__c doesn't accept the value created, which new records get. Add what it lacks to the picklist, or set `status: null` in the mapping.",
      tooShort('Ferry_Booking__c'),
      "Ferry_Booking__c.Reservation_Phase__c doesn't accept the values pending, cancelled, which reservations' bookings get. Add what it lacks to the picklist, or set `status: null` in the mapping.",
    ]);
  });

  test('handoff org package writes what is missing, and names what it can not make', async () => {
    const out = join(folder, 'package');
    const { code, stdout } = await org(['package', '--json', '--out', out, '--mapping', file]);
    assert.equal(code, 0);
    const { left } = JSON.parse(stdout) as { left: string[] };
    assert.deepEqual(
      left.map((line) => line.split(':')[0]),
      ['Deal_Offer__c.Budget__c', 'Deal_Offer__c.Region__c'],
    );
    assert.deepEqual([...checkWellFormed(out), ...checkElements(out)], []);
    const manifest = await readFile(join(out, 'manifest/package.xml'), 'utf8');
    assert.equal(manifest.trim(), packageXml(readComponents(out), readProject(out).apiVersion).trim());
    const permissions = await readFile(
      join(out, 'force-app/main/default/permissionsets/Handoff_Gateway.permissionset-meta.xml'),
      'utf8',
    );
    // Required fields, such as Title__c, are visible to all.
    assert.match(permissions, /<field>Trip_Booking__c\.My_Key__c<\/field>/);
    assert.doesNotMatch(permissions, /Title__c/);
    assert.match(permissions, /<recordType>Trip_Booking__c\.Single_Service<\/recordType>/);
    const again = await org(['package', '--out', out]);
    assert.equal(again.code, 2);
  });

  test('handoff org package for Contact reads Account, and has the version of the settings', async () => {
    const out = join(folder, 'of-contacts');
    const { code } = await org(['package', '--out', out], 'default', { CRM_API_VERSION: '64.0' });
    assert.equal(code, 0);
    assert.match(await readFile(join(out, 'manifest/package.xml'), 'utf8'), /<version>64\.0<\/version>/);
    assert.match(await readFile(join(out, 'sfdx-project.json'), 'utf8'), /"sourceApiVersion": "64\.0"/);
    const permissions = await readFile(
      join(out, 'force-app/main/default/permissionsets/Handoff_Gateway.permissionset-meta.xml'),
      'utf8',
    );
    const account = permissions
      .split('</objectPermissions>')
      .find((text) => text.includes('<object>Account</object>'));
    assert.match(account ?? '', /allowRead>true[^]*viewAllRecords>false/);
    assert.match(account ?? '', /allowCreate>false[^]*allowEdit>false/);
  });

  test('a file with faults ends with their lines', async () => {
    const broken = join(folder, 'broken.yaml');
    await writeFile(broken, 'version: 1\nresources:\n  quote: { object: 7 }\n  voucher: {}\n');
    const { code, stderr } = await org(['check', '--mapping', broken]);
    assert.equal(code, 2);
    assert.match(stderr, /broken\.yaml:3:\d+: .*object must be[^]*broken\.yaml:4:3: /);
  });
});
