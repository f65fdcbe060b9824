import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { resourcesFor } from '../../app/mapping.ts';
import { createCrmCheck } from '../../crm/crm-check.ts';
import {
  type Described,
  type DescribedField,
  type DescribedObject,
  isRequired,
  type ListedObject,
} from '../../crm/describe.ts';
import { checkResource } from '../../crm/schema-check.ts';
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
import { createMetrics } from '../../platform/observability/metrics.ts';
import { openSecretsManager } from '../../platform/secrets/secrets.ts';
import { SettingsError } from '../../platform/settings/settings.ts';
import type { CrmSettings, Settings } from '../../platform/settings/table.ts';
import { withSimulated } from '../../platform/simulators/simulator.ts';
import { listOf, type Resources } from '../../records/mapping.ts';
import type { Misfit, MisfitKind } from '../../records/org-fit.ts';
import { laterStatuses } from '../../records/quotes-and-bookings.ts';
import { formatProposal } from './mapping-text.ts';
import { packageFiles, writePackage } from './package.ts';
import { proposeMapping, toMapping } from './propose.ts';

/** Objects that one call describes (REST Developer Guide, Composite: 25 subrequests). */
const describedAtOnce = 25;

/** The org of the settings, as the commands `handoff org` ask it. Methods throw `CrmFailure`, `Problem`. */
interface OrgConnection {
  /** The mapping that the settings name, laid over the declarations. Throws `SettingsError`. */
  resources(mappingFile?: string): Resources;
  apiVersion: string;
  listObjects(): Promise<ListedObject[]>;
  describe(names: readonly string[]): Promise<Described>;
  checkOwners(resources: Resources): Promise<string[]>;
  objectsNotSeen(resources: Resources): Promise<string[]>;
}

/**
 * Signs in to the org of the settings, or to a simulated one that has no records, so that a running service is not
 * disturbed. Closed with `opened`. Throws `TokenFailure`, `SecretsUnavailable`.
 */
async function connectOrg(settings: Settings, opened: AsyncDisposableStack): Promise<OrgConnection> {
  const secrets = await openSecretsManager(settings, createLog('silent'));
  opened.defer(() => secrets.close());
  const org = await startEmptyOrg(settings, secrets, opened);
  const connected = withSimulated(settings, org);
  const { environment } = settings;
  const crm = createCrmCheck({
    ...(connected.crm as CrmSettings),
    environment,
    secrets,
    metrics: createMetrics(),
  });
  opened.defer(() => crm.close());
  const token = await crm.signIn(await crm.sign());
  return {
    resources: (mappingFile) =>
      resourcesFor(mappingFile === undefined ? connected : { crm: { ...connected.crm, mappingFile } }),
    apiVersion: connected.crm.apiVersion,
    listObjects: () => crm.listObjects(token),
    checkOwners: (resources) => crm.checkOwners(resources, token),
    objectsNotSeen: (resources) => crm.objectsNotSeen(resources, token),
    async describe(names) {
      const described: [string, DescribedObject | null][] = [];
      for (let start = 0; start < names.length; start += describedAtOnce)
        described.push(...(await crm.describe(names.slice(start, start + describedAtOnce), token)));
      return new Map(described);
    },
  };
}

interface OrgProblem {
  object: string;
  /** Null: the object itself. */
  field: string | null;
  problem: string;
  advice: string;
}

function problemsOf(resources: Resources, described: Described): OrgProblem[] {
  // Whether there will be reservations is not known here.
  resources.booking.fit.laterStatuses = laterStatuses;
  return listOf(resources).flatMap((resource) =>
    checkResource(resource, described, resources.member.crmObject).misfits.map((misfit) => ({
      object: resource.crmObject,
      field: misfit.column,
      problem: misfit.problem,
      advice: adviceFor(misfit),
    })),
  );
}

function adviceFor({ kind, column }: Misfit): string {
  if (kind === 'absent' && column === null)
    return 'Create it with `handoff org package`, name another object in the mapping, or give the integration user permission to see it.';
  return adviceByKind[kind];
}

const adviceByKind: Readonly<Record<MisfitKind, string>> = {
  absent:
    'Create it with `handoff org package`, name another field in the mapping, or give the integration user permission to see it.',
  permission: 'Assign the permission set from `handoff org package` to the integration user.',
  unset:
    'Map an API field to it, add it under `add` with `required: true`, set a value for all records under `set`, or make it optional in the org.',
  length: 'Make the field longer in the org, or name another one in the mapping.',
  values: 'Add what it lacks to the picklist, or set `status: null` in the mapping.',
  key: 'Make the field unique and an external ID, or name another field in the mapping.',
  mismatch: 'Name another field in the mapping, or change the field in the org.',
};

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
    description: "the org's objects and fields, and how the gateway uses them",
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
      withOrg(command, (org) => check(org, mapping, json)),
    );
  group
    .command('package')
    .description('write Salesforce metadata for whatever the org lacks, and a permission set')
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
      ? `The org has everything the gateway needs in ${objects.join(', ')}.`
      : problems.map(showProblem).join('\n'),
  );
  if (problems.length > 0) process.exitCode = 1;
}

function ownerProblem(problem: string): OrgProblem {
  return {
    object: 'User',
    field: null,
    problem: `can't provide owners: ${problem.replace(/\.$/, '')}`,
    advice: 'Until you fix this, the integration user owns new records.',
  };
}

function unseenProblem(object: string): OrgProblem {
  return {
    object,
    field: null,
    problem:
      "isn't fully visible: the integration user lacks View All Records, so it can't see others' records if the object is private",
    advice: "Grant it; the package's permission set includes it.",
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
