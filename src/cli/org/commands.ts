import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { resourcesFor } from '../../app/settings.ts';
import { explain, type OrgConnection, openCrmCheck } from '../../crm/crm-check.ts';
import {
  type DescribedField,
  type DescribedObject,
  isRequired,
  type ListedObject,
} from '../../crm/describe.ts';
import { startEmptyOrg } from '../../crm/simulated-org.ts';
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
import { createLog } from '../../platform/observability/log.ts';
import { openSecretsManager } from '../../platform/secrets/secrets.ts';
import { SettingsError } from '../../platform/settings/settings.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { withSimulated } from '../../platform/simulators/simulator.ts';
import { listOf, type Resources } from '../../records/mapping.ts';
import { packageFiles, writePackage } from './package.ts';
import { formatProposal, proposeMapping, soundsLikeOurs, toMapping } from './propose.ts';

/** Takes the mapping from another file than the settings name, where one is given. Throws `SettingsError`. */
type ReadResources = (mappingFile?: string) => Resources;

/**
 * Signs in to the org of the settings, or to a simulated one that has no records, so that a running service is not
 * disturbed. Throws `TokenFailure`, `SecretsUnavailable`.
 */
async function connectOrg(
  settings: Settings,
  opened: AsyncDisposableStack,
): Promise<[OrgConnection, ReadResources]> {
  const secrets = await openSecretsManager(settings, createLog('silent'));
  opened.defer(() => secrets.close());
  const connected = withSimulated(settings, await startEmptyOrg(settings, secrets, opened));
  const crmCheck = openCrmCheck(connected, secrets, opened);
  const org = await crmCheck.signIn(await crmCheck.sign());
  const { crm } = connected;
  return [org, (mappingFile = crm.mappingFile) => resourcesFor({ crm: { ...crm, mappingFile } })];
}

/** Objects that `org map` looks at, the likely ones first: enough for a large org, and few calls. */
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
    description: "the org's objects and fields, and how the gateway uses them",
  });
  const withOrg = (command: Command, work: (org: OrgConnection, read: ReadResources) => Promise<void>) =>
    runCommand(command, async () => {
      await using opened = new AsyncDisposableStack();
      try {
        await work(...(await connectOrg(load(), opened)));
      } catch (error) {
        if (error instanceof SettingsError) throw new CommandFailed(error.message, exitBadInput);
        throw error;
      }
    });
  group
    .command('inspect')
    .description("list the objects that the integration user can see, or one object's fields")
    .argument('[object]', 'API name of an object, such as Travel_Offer__c')
    .option('--json', 'print JSON')
    .action((object: string | undefined, { json }: JsonOption, command: Command) =>
      withOrg(command, (org) => (object === undefined ? listAll(org, json) : listFields(org, object, json))),
    );
  group
    .command('map')
    .description("propose a mapping file from the org's objects and fields")
    .option('--write <file>', 'write it to this new file')
    .option('--json', 'print JSON')
    .action(({ write, json }: JsonOption & { write?: string }, command: Command) =>
      withOrg(command, (org) => propose(org, write, json)),
    );
  group
    .command('check')
    .description("list everything in the org that doesn't match the mapping")
    .option('--mapping <file>', 'use this mapping file instead of the one in the settings')
    .option('--json', 'print JSON')
    .action(({ mapping, json }: JsonOption & { mapping?: string }, command: Command) =>
      withOrg(command, (org, read) => check(org, read(mapping), json)),
    );
  group
    .command('package')
    .description('write Salesforce metadata for whatever the org lacks, and a permission set')
    .requiredOption('--out <directory>', 'a new or empty directory')
    .option('--mapping <file>', 'use this mapping file instead of the one in the settings')
    .option('--json', 'print JSON')
    .action(({ out, mapping, json }: JsonOption & { out: string; mapping?: string }, command: Command) =>
      withOrg(command, (org, read) => makePackage(org, read(mapping), { out, json })),
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
      ['object', 'label', 'custom', 'can create'],
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
      `The org has no object ${name}, or the integration user can't see it. \`handoff org inspect\` lists all objects.`,
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
      ['field', 'type', 'required', 'writable', 'unique', 'external id', 'values'],
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
  const isLikely = (object: ListedObject) => !object.custom || soundsLikeOurs(object);
  const objects = (await org.listObjects()).filter(mayHoldRecords);
  const names = objects.sort((a, b) => Number(isLikely(b)) - Number(isLikely(a))).map(({ name }) => name);
  const described = await org.describe(names.slice(0, mostObjects));
  const unseen = names.slice(mostObjects);
  const proposal = proposeMapping(described);
  const text = formatProposal(proposal, unseen);
  if (file !== undefined) await writeNew(file, text);
  if (json) print(json, { file: file ?? null, mapping: toMapping(proposal), not_looked_at: unseen }, String);
  else
    process.stdout.write(
      file === undefined
        ? text
        : `Wrote ${file}. Review each line, then run: handoff org check --mapping ${file}\n`,
    );
}

function mayHoldRecords({ name, custom, queryable }: ListedObject): boolean {
  return queryable && !companions.test(name) && (custom || standardObjects.includes(name));
}

async function writeNew(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: 'wx' });
  } catch (error) {
    throw new CommandFailed(`Couldn't write ${file}: ${(error as Error).message}`, exitBadInput);
  }
}

async function check(org: OrgConnection, resources: Resources, json: true | undefined): Promise<void> {
  const owners = await org.inspectOwners(resources);
  const { faults, lacks } = await org.inspect(resources);
  const problems = [...faults, ...lacks, ...owners];
  print(json, { ok: problems.length === 0, problems }, () =>
    problems.length === 0
      ? `The org has everything the gateway needs in ${listOf(resources)
          .map(({ crmObject }) => crmObject)
          .join(', ')}.`
      : problems.map(explain).join('\n'),
  );
  if (problems.length > 0) process.exitCode = 1;
}

async function makePackage(
  org: OrgConnection,
  resources: Resources,
  { out, json }: JsonOption & { out: string },
): Promise<void> {
  const described = await org.describe(listOf(resources).map(({ crmObject }) => crmObject));
  const { files, left } = packageFiles(resources, described, org.apiVersion);
  try {
    await writePackage(out, files);
  } catch (error) {
    throw new CommandFailed(`Couldn't write to ${out}: ${(error as Error).message}`, exitBadInput);
  }
  print(json, { directory: out, files: [...files.keys()], left }, () =>
    [
      ...[...files.keys()].map((path) => `Wrote ${path}`),
      ...left.map((line) => `Left out ${line}`),
      `To deploy it, run in ${out}: sf project deploy start --manifest manifest/package.xml`,
    ].join('\n'),
  );
}
