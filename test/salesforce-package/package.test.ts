import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { checkApex } from '../../salesforce/check/apex.ts';
import { checkPackage } from '../../salesforce/check/check-package.ts';
import { checkConversion } from '../../salesforce/check/conversion.ts';
import { checkCoverage } from '../../salesforce/check/coverage.ts';
import { checkElements } from '../../salesforce/check/elements.ts';
import type { Finding } from '../../salesforce/check/finding.ts';
import { checkManifest, writeManifest } from '../../salesforce/check/manifest.ts';
import { children, childText } from '../../salesforce/check/package-files.ts';
import { checkReferences } from '../../salesforce/check/references.ts';
import { readSchema } from '../../salesforce/check/schema.ts';
import { checkWellFormed } from '../../salesforce/check/well-formed.ts';

const run = promisify(execFile);
/** That of the system, where it is older than ours. */
const olderNode = '/usr/bin/node';
const PACKAGE = join(import.meta.dirname, '../../salesforce');
const SOURCE = 'force-app/main/default';
const PERMISSION_SET = `${SOURCE}/permissionsets/Handoff_Gateway.permissionset-meta.xml`;
const MEMBER = `${SOURCE}/objects/Quote__c/fields/Member__c.field-meta.xml`;
const STATUS = `${SOURCE}/objects/Quote__c/fields/Status__c.field-meta.xml`;
const trigger = 'webhook-sender/main/default/triggers/HandoffMemberChanges.trigger';
const TRIP = `${SOURCE}/objects/Quote__c/fields/Trip_Id__c.field-meta.xml`;

let scratch: string;
before(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'salesforce-package-test-'));
});
after(() => rm(scratch, { recursive: true, force: true }));

/** A copy of the package that a test may break. */
async function copyPackage(): Promise<string> {
  const directory = await mkdtemp(join(scratch, 'copy-'));
  for (const part of ['sfdx-project.json', 'force-app', 'webhook-sender', 'manifest', 'templates']) {
    await cp(join(PACKAGE, part), join(directory, part), { recursive: true });
  }
  return directory;
}

/** A copy in which `from` in one file reads `to`. */
async function copyWith(file: string, from: string | RegExp, to: string): Promise<string> {
  const directory = await copyPackage();
  const text = await readFile(join(directory, file), 'utf8');
  const changed = text.replace(from, to);
  assert.ok(changed !== text, `${file} has no ${from}`);
  await writeFile(join(directory, file), changed);
  return directory;
}

/** A copy with one file more. */
async function copyAdding(file: string, text: string): Promise<string> {
  const directory = await copyPackage();
  await mkdir(dirname(join(directory, file)), { recursive: true });
  await writeFile(join(directory, file), text);
  return directory;
}

function assertFinds(findings: Finding[], file: string, message: RegExp): void {
  assert.deepEqual(
    findings.map((finding) => finding.file),
    [file],
    JSON.stringify(findings),
  );
  assert.match(findings[0]?.message ?? '', message);
}

describe('the package as it is', () => {
  it('passes every check', async () => {
    assert.deepEqual(await checkPackage(PACKAGE), []);
  });

  it('gives the gateway every field that is not required', () => {
    const { fields, permissionSets } = readSchema(PACKAGE);
    const set = permissionSets.find(({ file }) => file === PERMISSION_SET);
    const granted = children(set?.root, 'fieldPermissions').map(
      (permission) => childText(permission, 'field') ?? '',
    );
    const optional = [...fields].filter(([, field]) => !field.required).map(([name]) => name);
    assert.deepEqual(granted.sort(), [...optional, 'Contact.Email', 'Contact.Phone'].sort());
  });

  it('keeps external ids unique and case-sensitive', () => {
    const { fields } = readSchema(PACKAGE);
    for (const object of ['Quote__c', 'Booking__c', 'Contact']) {
      const root = fields.get(`${object}.External_Id__c`)?.document.root;
      const facts = ['externalId', 'unique', 'caseSensitive', 'length'].map((name) => childText(root, name));
      assert.deepEqual(facts, ['true', 'true', 'true', '36'], object);
    }
  });

  it('does not let the gateway change members', () => {
    const set = readSchema(PACKAGE).permissionSets.find(({ file }) => file === PERMISSION_SET);
    const contact = children(set?.root, 'objectPermissions').find(
      (permission) => childText(permission, 'object') === 'Contact',
    );
    for (const name of ['allowCreate', 'allowEdit', 'allowDelete', 'modifyAllRecords']) {
      assert.equal(childText(contact, name), 'false', name);
    }
  });

  it('has templates that become components of the app once they are filled in', async () => {
    const directory = await copyPackage();
    await cp(join(directory, 'templates/org-settings'), join(directory, SOURCE), { recursive: true });
    await writeManifest(directory);
    assert.deepEqual(await checkPackage(directory), []);
    const manifest = await readFile(join(directory, 'manifest/package.xml'), 'utf8');
    assert.match(manifest, /<name>ExtlClntAppGlobalOauthSettings<\/name>/);
    assert.match(manifest, /<name>ExtlClntAppOauthConfigurablePolicies<\/name>/);
  });
});

describe('XML that is not well-formed is found', () => {
  const faults: [name: string, from: string | RegExp, to: string, message: RegExp][] = [
    ['an element that is not closed', '</label>', '', /Line \d+: Expected closing tag 'label'/],
    ['a bare ampersand', 'Trip ID', 'Trip & ID', /Line \d+/],
    ['an unknown entity', 'Trip ID', 'Trip&nbsp;ID', /&nbsp; is not defined/],
    ['a second root', /$/, '<CustomField/>', /2 root elements/],
    ['text after the root', /$/, 'left over', /Extra text/],
    ['a document type', '<CustomField', '<!DOCTYPE CustomField><CustomField', /document type/],
    ['a control character', 'Trip ID', 'Trip\u0007ID', /control character/],
  ];
  for (const [name, from, to, message] of faults) {
    it(name, async () => {
      const directory = await copyWith(TRIP, from, to);
      assertFinds(checkWellFormed(directory), TRIP, message);
      assertFinds(await checkPackage(directory), TRIP, message);
    });
  }

  it('bytes that are not UTF-8', async () => {
    const directory = await copyPackage();
    await writeFile(join(directory, TRIP), Buffer.from([0x3c, 0x61, 0x3e, 0xe9, 0x3c, 0x2f, 0x61, 0x3e]));
    assertFinds(checkWellFormed(directory), TRIP, /not UTF-8/);
  });
});

describe('files that belong to no component are found', () => {
  const orphans = [
    `${SOURCE}/permissionsets/Extra.permisionset-meta.xml`,
    `${SOURCE}/objects/Quote__c/fields/Extra__c.feild-meta.xml`,
    `${SOURCE}/notes.txt`,
    `${SOURCE}/classes/NoMeta.cls`,
  ];
  for (const orphan of orphans) {
    it(orphan.replace(`${SOURCE}/`, ''), async () => {
      const directory = await copyAdding(orphan, '<CustomField/>');
      assertFinds(checkCoverage(directory), orphan, /belongs to no component/);
    });
  }
});

describe('elements that the Metadata API does not have are found', () => {
  const faults: [name: string, file: string, from: string | RegExp, to: string, message: RegExp][] = [
    ['an unknown element', TRIP, /<(\/?)length>/g, '<$1lenght>', /has no element <lenght>/],
    ['an unknown element further in', STATUS, /<(\/?)sorted>/g, '<$1sort>', /ValueSet|valueSetDefinition/i],
    ['a word that is no value', TRIP, '>Text<', '>NoSuchType<', /"NoSuchType" is not a value of FieldType/],
    ['a number that is none', TRIP, '>36<', '>many<', /"many" is no number/],
    ['a boolean that is none', TRIP, '<unique>false', '<unique>no', /is no boolean/],
    [
      'an element given twice',
      TRIP,
      '<type>Text</type>',
      '<type>Text</type><type>Text</type>',
      /more than once/,
    ],
    ['text among elements', TRIP, '<type>', 'stray<type>', /has no element <#text>/],
    ['elements in place of text', TRIP, '>36<', '><b>36</b><', /holds text/],
    [
      'text in place of elements',
      STATUS,
      /<valueSet>[^]*<\/valueSet>/,
      '<valueSet>a</valueSet>',
      /holds elements/,
    ],
    ['a required element left out', PERMISSION_SET, '<label>Handoff Gateway</label>', '', /lacks <label>/],
    ['another namespace', TRIP, '/2006/04/metadata', '/2006/04/other', /needs xmlns/],
    ['an unknown root', TRIP, /CustomField/g, 'CustomFeild', /not a type of the Metadata API/],
  ];
  for (const [name, file, from, to, message] of faults) {
    it(name, async () => {
      const findings = checkElements(await copyWith(file, from, to));
      assert.deepEqual([...new Set(findings.map((finding) => finding.file))], [file]);
      assert.match(findings.map((finding) => finding.message).join('\n'), message);
    });
  }
});

describe('references that lead nowhere are found', () => {
  const faults: [name: string, file: string, from: string | RegExp, to: string, message: RegExp][] = [
    ['an unknown lookup target', MEMBER, '>Contact<', '>Contct<', /lookup target "Contct"/],
    ['a lookup without a target', MEMBER, /<referenceTo>.*<\/referenceTo>/, '', /lookup target ""/],
    ['a name other than the file name', TRIP, '>Trip_Id__c<', '>Trip__c<', /not the name of the file/],
    ['two defaults of a picklist', STATUS, '<default>false', '<default>true', /2 default values/],
    ['a picklist value twice', STATUS, '>pending<', '>created<', /"created" stands twice/],
    [
      'a permission for a missing field',
      PERMISSION_SET,
      'Quote__c.Trip_Id__c',
      'Quote__c.Trip__c',
      /"Quote__c.Trip__c" of a permission does not exist/,
    ],
    [
      'a permission for a required field',
      PERMISSION_SET,
      'Quote__c.Trip_Id__c',
      'Quote__c.Name__c',
      /Quote__c.Name__c is required/,
    ],
    [
      'a permission for a part of a name',
      PERMISSION_SET,
      'Contact.Phone',
      'Contact.FirstName',
      /part of the name/,
    ],
    ['a permission for a missing object', PERMISSION_SET, '>Account<', '>Acount<', /"Acount"/],
    [
      'a permission without what it needs',
      PERMISSION_SET,
      /(<object>Booking__c<\/object>\s*<viewAllRecords>)true/,
      '$1false',
      /Booking__c: modifyAllRecords needs viewAllRecords/,
    ],
    [
      'an app that is not there',
      `${SOURCE}/extlClntAppOauthSettings/Handoff_Gateway_oauth.ecaOauth-meta.xml`,
      '>Handoff_Gateway<',
      '>Other<',
      /app "Other" is not in the package/,
    ],
  ];
  for (const [name, file, from, to, message] of faults) {
    it(name, async () => assertFinds(checkReferences(await copyWith(file, from, to)), file, message));
  }

  it('a field on a layout or in a list that is not there', async () => {
    const layout = `${SOURCE}/layouts/Quote__c-Quote Layout.layout-meta.xml`;
    const list = `${SOURCE}/objects/Quote__c/listViews/All.listView-meta.xml`;
    for (const file of [layout, list])
      assertFinds(checkReferences(await copyWith(file, 'Source__c', 'Sauce__c')), file, /Quote__c.Sauce__c/);
  });

  it('a field of an object that is not there', async () => {
    const text = await readFile(join(PACKAGE, TRIP), 'utf8');
    const stray = `${SOURCE}/objects/Quotes__c/fields/Trip_Id__c.field-meta.xml`;
    assertFinds(
      checkReferences(await copyAdding(stray, text)),
      stray,
      /object Quotes__c is not in the package/,
    );
  });
});

it('layouts show every field of the package but the further parts of details', async () => {
  for (const name of ['Quote', 'Booking']) {
    const fields = await readdir(join(PACKAGE, SOURCE, `objects/${name}__c/fields`));
    const layout = `${SOURCE}/layouts/${name}__c-${name} Layout.layout-meta.xml`;
    const text = await readFile(join(PACKAGE, layout), 'utf8');
    const left = fields
      .map((file) => file.replace('.field-meta.xml', ''))
      .filter((field) => !text.includes(`<field>${field}</field>`));
    assert.ok(
      left.every((field) => /^Details_\d__c$/.test(field)),
      left.join(),
    );
  }
});

describe('a manifest that does not match is found', () => {
  const manifest = 'manifest/package.xml';

  it('a component that it lacks', async () => {
    const text = await readFile(join(PACKAGE, TRIP), 'utf8');
    const field = `${SOURCE}/objects/Quote__c/fields/Trip2_Id__c.field-meta.xml`;
    const directory = await copyAdding(field, text.replace('Trip_Id__c', 'Trip2_Id__c'));
    assertFinds(await checkManifest(directory), manifest, /does not match/);
    await writeManifest(directory);
    assert.deepEqual(await checkManifest(directory), []);
  });

  it('another API version', async () => {
    const directory = await copyWith(manifest, '<version>68.0', '<version>67.0');
    assertFinds(await checkManifest(directory), manifest, /does not match/);
  });

  it('no manifest at all', async () => {
    const directory = await copyPackage();
    await rm(join(directory, manifest));
    assertFinds(await checkManifest(directory), manifest, /does not match/);
  });
});

describe('a package that does not convert is found', () => {
  it('a class without its source', async () => {
    const meta = `${SOURCE}/classes/Lonely.cls-meta.xml`;
    const directory = await copyAdding(meta, '<ApexClass xmlns="http://soap.sforce.com/2006/04/metadata"/>');
    const findings = checkConversion(directory);
    assert.match(findings[0]?.message ?? '', /Lonely/);
  });
});

describe('Apex that is none is found', () => {
  const classes = 'webhook-sender/main/default/classes';
  const faults: [name: string, file: string, from: string | RegExp, to: string, message: RegExp][] = [
    ['a missing semicolon', `${classes}/HandoffWebhook.cls`, 'toString();', 'toString()', /^Line \d+, /],
    ['a missing brace', `${classes}/HandoffWebhookTest.cls`, /\}\s*$/, '', /^Line \d+, column \d+: .*<EOF>/],
    ['text behind the end', `${classes}/HandoffWebhook.cls`, /\s*$/, '\n}\n', /^Line \d+, column 1: /],
    ['a text that is not closed', trigger, "'member.deleted'", "'member.deleted", /^Line \d+, /],
  ];
  for (const [name, file, from, to, message] of faults)
    it(name, async () => {
      const [finding] = checkApex(await copyWith(file, from, to));
      assert.equal(finding?.file, file);
      assert.match(finding.message, message);
    });
});

describe('the command', () => {
  const check = join(PACKAGE, 'check.ts');

  it('works with an older Node too', {
    skip: !existsSync(olderNode) && 'there is no older Node.js',
  }, async () => {
    assert.match((await run(olderNode, [check])).stdout, /in order/);
  });

  it('says that the package is in order', async () => {
    const { stdout, stderr } = await run(process.execPath, [check]);
    assert.equal(stdout, 'The Salesforce package is in order.\n');
    assert.equal(stderr, '');
  });

  it('prints findings and exits with 1', async () => {
    const directory = await copyWith(MEMBER, '>Contact<', '>Contct<');
    await assert.rejects(
      run(process.execPath, [check, directory]),
      (error: Error & { code?: number; stderr?: string }) => {
        assert.equal(error.code, 1);
        assert.equal(
          error.stderr,
          `${MEMBER}: The lookup target "Contct" is neither in the package nor a known standard object. [references]\n`,
        );
        return true;
      },
    );
  });

  it('says in words that a directory is no package', async () => {
    await assert.rejects(run(process.execPath, [check, '--write-manifest', scratch]), {
      code: 1,
      stderr: /sfdx-project/,
    });
  });

  it('writes the manifest', async () => {
    const directory = await copyPackage();
    await rm(join(directory, TRIP.replace('Trip_Id', 'Details_8')));
    const permission =
      /\s*<fieldPermissions>\s*<editable>true<\/editable>\s*<field>Quote__c.Details_8__c[^]*?<\/fieldPermissions>/;
    const set = await readFile(join(directory, PERMISSION_SET), 'utf8');
    await writeFile(join(directory, PERMISSION_SET), set.replace(permission, ''));
    const { stdout } = await run(process.execPath, [check, '--write-manifest', directory]);
    assert.match(stdout, /in order/);
    assert.doesNotMatch(
      await readFile(join(directory, 'manifest/package.xml'), 'utf8'),
      /Quote__c.Details_8__c/,
    );
  });
});
