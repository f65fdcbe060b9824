import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import {
  type DescribedField,
  type DescribedObject,
  isRequired,
  type ListedObject,
} from '../../crm/describe.ts';
import {
  addGroup,
  CommandFailed,
  exitBadInput,
  exitNotFound,
  type LoadSettings,
  print,
  runCommand,
  table,
} from '../../platform/command-line/command.ts';
import { SettingsError } from '../../platform/settings/settings.ts';
import { listOf } from '../../records/mapping.ts';
import { connectOrg, type OrgConnection } from './connection.ts';
import { type OrgProblem, problemsOf } from './faults.ts';
import { formatProposal } from './mapping-text.ts';
import { packageFiles, writePackage } from './package.ts';
import { proposeMapping, toMapping } from './propose.ts';

/** Objects that `org map` looks at: enough for a large org, and few calls. */
const mostObjects = 500;
const companions = /__(share|history|feed|tag|changeevent|e|mdt|b|x|kav)$|(share|history|feed|changeevent)$/i;
const standardObjects = [
  'Account',
  'Contact',
  'Lead',
  'Opportunity',
  'Order',
  'Quote',
  'Case',
  'Asset',
  'Contract',
];

interface JsonOption {
  json?: true | undefined;
}

export function registerOrgCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'org',
    heading: 'org',
    description: "the org's objects and fields, and how the service uses them",
  });
  const withOrg = (command: Command, work: (org: OrgConnection) => Promise<void>) =>
    runCommand(command, async () => {
      await using opened = new AsyncDisposableStack();
      try {
        await work(await connectOrg(load(), opened));
      } catch (error) {
        if (error instanceof SettingsError) throw new CommandFailed(error.message, exitBadInput);
        throw error;
      }
    });
  group
    .command('inspect')
    .description('list the objects that the integration user may see, or the fields of one')
    .argument('[object]', 'API name of an object, such as Travel_Offer__c')
    .option('--json', 'print JSON')
    .action((object: string | undefined, { json }: JsonOption, command: Command) =>
      withOrg(command, (org) => (object === undefined ? listAll(org, json) : listFields(org, object, json))),
    );
  group
    .command('map')
    .description('propose a mapping file from what the org has')
    .option('--write <file>', 'write it to this file, which must not exist yet')
    .option('--json', 'print JSON')
    .action(({ write, json }: JsonOption & { write?: string }, command: Command) =>
      withOrg(command, (org) => propose(org, write, json)),
    );
  group
    .command('check')
    .description('list everything in the org that does not fit the mapping')
    .option('--mapping <file>', 'use this mapping file instead of the one in the settings')
    .option('--json', 'print JSON')
    .action(({ mapping, json }: JsonOption & { mapping?: string }, command: Command) =>
      withOrg(command, (org) => check(org, mapping, json)),
    );
  group
    .command('package')
    .description('write Salesforce metadata for what the org lacks, and a permission set')
    .requiredOption('--out <directory>', 'a new or empty directory')
    .option('--mapping <file>', 'use this mapping file instead of the one in the settings')
    .option('--json', 'print JSON')
    .action(({ out, mapping, json }: JsonOption & { out: string; mapping?: string }, command: Command) =>
      withOrg(command, (org) => makePackage(org, { out, mapping, json })),
    );
}

async function listAll(org: OrgConnection, json: true | undefined): Promise<void> {
  const objects = (await org.listObjects()).map(({ name, label, custom, createable }) => ({
    object: name,
    label,
    custom,
    createable,
  }));
  print(json, { objects }, () =>
    table([
      ['OBJECT', 'LABEL', 'CUSTOM', 'CREATEABLE'],
      ...objects.map(({ object, label, custom, createable }) => [
        object,
        label,
        yesNo(custom),
        yesNo(createable),
      ]),
    ]),
  );
}

async function listFields(org: OrgConnection, name: string, json: true | undefined): Promise<void> {
  const [object] = [...(await org.describe([name])).values()];
  if (!object)
    throw new CommandFailed(
      `There is no object ${name}, or the integration user may not see it: \`handoff org inspect\` lists all.`,
      exitNotFound,
    );
  const fields = object.fields.map((field) => ({
    name: field.name,
    type: describedType(field),
    values: field.name === 'RecordTypeId' ? recordTypesOf(object) : field.values,
    required: isRequired(field),
    writable: field.createable && field.updateable,
    unique: field.unique,
    external_id: field.externalId,
  }));
  print(json, { object: object.name, fields }, () =>
    table([
      ['FIELD', 'TYPE', 'REQUIRED', 'WRITABLE', 'UNIQUE', 'EXTERNAL ID', 'VALUES'],
      ...fields.map((field) => [
        ...[field.name, field.type, yesNo(field.required), yesNo(field.writable)],
        ...[yesNo(field.unique), yesNo(field.external_id), shortList(field.values)],
      ]),
    ]),
  );
}

function recordTypesOf({ recordTypes }: DescribedObject): string[] {
  return recordTypes.flatMap(({ developerName, available }) =>
    available && developerName !== 'Master' ? [developerName] : [],
  );
}

function describedType({
  type,
  length,
  precision,
  scale,
  referenceTo,
  relationshipName,
}: DescribedField): string {
  if (referenceTo.length > 0)
    return `reference to ${referenceTo.join(', ')} (${relationshipName ?? 'no relationship'})`;
  if (precision > 0) return `${type}(${precision - scale}, ${scale})`;
  return length > 0 ? `${type}(${length})` : type;
}

function shortList(values: readonly string[]): string {
  return [...values.slice(0, 8), ...(values.length > 8 ? [`and ${values.length - 8} more`] : [])].join(', ');
}

function yesNo(is: boolean): string {
  return is ? 'yes' : '';
}

async function propose(org: OrgConnection, file: string | undefined, json: true | undefined): Promise<void> {
  const names = (await org.listObjects()).filter(mayHoldRecords).map(({ name }) => name);
  const described = await org.describe(names.slice(0, mostObjects));
  const proposal = proposeMapping(described);
  const text = formatProposal(proposal);
  if (file !== undefined) await writeNew(file, text);
  if (json) print(json, { file: file ?? null, mapping: toMapping(proposal) }, String);
  else
    process.stdout.write(
      file === undefined
        ? text
        : `Wrote ${file}. Check each line, then run: handoff org check --mapping ${file}\n`,
    );
}

function mayHoldRecords({ name, custom, queryable }: ListedObject): boolean {
  return queryable && !companions.test(name) && (custom || standardObjects.includes(name));
}

async function writeNew(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: 'wx' });
  } catch (error) {
    throw new CommandFailed(`${file} was not written: ${(error as Error).message}`, exitBadInput);
  }
}

async function check(
  org: OrgConnection,
  mappingFile: string | undefined,
  json: true | undefined,
): Promise<void> {
  const resources = org.resources(mappingFile);
  const objects = listOf(resources).map(({ crmObject }) => crmObject);
  const owners = (await org.checkOwners(resources)).map(ownerProblem);
  const unseen = (await org.objectsNotSeen(resources)).map(unseenProblem);
  const problems = [...problemsOf(resources, await org.describe(objects)), ...owners, ...unseen];
  print(json, { ok: problems.length === 0, problems }, () =>
    problems.length === 0
      ? `The org has all that the service needs: ${objects.join(', ')}.`
      : problems.map(showProblem).join('\n'),
  );
  if (problems.length > 0) process.exitCode = 1;
}

function ownerProblem(problem: string): OrgProblem {
  return {
    object: 'User',
    field: null,
    problem: `does not give owners: ${problem}`,
    advice: 'Until then records belong to the integration user.',
  };
}

function unseenProblem(object: string): OrgProblem {
  return {
    object,
    field: null,
    problem: 'hides what others own, where it is private: View All Records is missing',
    advice: 'Give it to the integration user; the permission set of the package has it.',
  };
}

function showProblem({ object, field, problem, advice }: OrgProblem): string {
  return `${[object, ...(field === null ? [] : [field])].join('.')} ${problem}. ${advice}`;
}

async function makePackage(
  org: OrgConnection,
  { out, mapping, json }: JsonOption & { out: string; mapping?: string | undefined },
): Promise<void> {
  const resources = org.resources(mapping);
  const described = await org.describe(listOf(resources).map(({ crmObject }) => crmObject));
  const { files, left } = packageFiles(resources, described, org.apiVersion);
  try {
    await writePackage(out, files);
  } catch (error) {
    throw new CommandFailed(`${out} was not written: ${(error as Error).message}`, exitBadInput);
  }
  print(json, { directory: out, files: [...files.keys()], left }, () =>
    [
      ...[...files.keys()].map((path) => `wrote ${path}`),
      ...left.map((line) => `not written: ${line}`),
      `Deploy it with: sf project deploy start --manifest manifest/package.xml (in ${out})`,
    ].join('\n'),
  );
}
