import type { Call } from '../platform/base/call.ts';
import { Listeners } from '../platform/base/concurrency.ts';
import type { Log } from '../platform/observability/log.ts';
import { listOf, type Resources, untyped } from '../records/mapping.ts';
import type { LookAtOrg, Misfit } from '../records/org-fit.ts';
import { nameOfType } from '../records/org-types.ts';
import type { Field, Resource } from '../records/resource.ts';
import { type Described, describeObjects } from './describe.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { type Checked, checkResource } from './schema-check.ts';
import type { UsableColumns } from './usable-columns.ts';

export interface OrgFault {
  object: string;
  /** Null: the object itself. */
  field: string | null;
  problem: string;
}

interface OrgSchemaOptions {
  resources: Resources;
  client: Pick<CrmClient, 'send' | 'dataPath'>;
  columnsOf: (resource: Resource) => UsableColumns;
  /** Undefined where the org doesn't say. */
  userId: (call: Call) => Promise<string | undefined>;
  log: Log;
}

export class OrgSchema {
  faults: readonly OrgFault[] = [];
  version = 0;
  numberColumns: ReadonlySet<string> = new Set();
  readonly changed = new Listeners<[]>();
  readonly repaired = new Listeners<[]>();
  look: LookAtOrg = async () => false;
  readonly #options: OrgSchemaOptions;
  readonly #all: readonly Resource[];
  #userId: string | undefined;
  #types = '';
  #values = '';

  constructor(options: OrgSchemaOptions) {
    this.#options = options;
    this.#all = listOf(options.resources);
    for (const { fit, crmObject } of this.#all)
      fit.onRefused = ({ about, ...refusal } = {}) =>
        this.look({ ...refusal, ...(about !== undefined && { about: `${crmObject}: ${about}` }) });
  }

  async describe(call: Call): Promise<Described> {
    const { client, userId } = this.#options;
    const names = this.#all.map(({ crmObject }) => crmObject);
    this.#userId ??= await userId(call);
    return describeObjects(client, names, call, this.#userId);
  }

  /**
   * Takes a description: from here on requests are checked, queried and answered by it. Logs what has changed. Whether something
   * is there now that was lacking.
   */
  apply(described: Described): boolean {
    const { resources, columnsOf, log } = this.#options;
    const checked = this.#all.map(
      (resource) => [resource, checkResource(resource, described, resources.member.crmObject)] as const,
    );
    for (const [resource, found] of checked) take(resource, found, described, columnsOf(resource));
    const found = checked.flatMap(([{ crmObject }, { misfits }]) =>
      misfits.map(({ column, problem }) => ({ object: crmObject, field: column, problem })),
    );
    const isRepaired = logChanges(log, this.faults, found);
    this.faults = found;
    const columns = this.#all.flatMap(({ fields }) => Object.values(fields).flatMap(numberColumn));
    this.numberColumns = new Set(columns);
    const values = JSON.stringify(checked.map(([, one]) => [...one.values]));
    const types = JSON.stringify(checked.map(([, one]) => [...one.types]));
    if (types !== this.#types || values !== this.#values) this.version += 1;
    this.#values = values;
    const isOther = types !== this.#types;
    this.#types = types;
    if (isOther) void this.changed.notify();
    if (isRepaired) void this.repaired.notify();
    return isRepaired;
  }
}

function numberColumn({ kind, crm }: Resource['fields'][string]): string[] {
  return kind === 'number' ? [crm.path] : [];
}

function take(resource: Resource, checked: Checked, described: Described, columns: UsableColumns): void {
  const { fields, fit, crmObject } = resource;
  const object = described.get(crmObject.toLowerCase());
  if (object === undefined) return;
  for (const [name, field] of Object.entries(fields)) {
    takeField(field, name, checked);
    checked.misfits.push(...changeOfType(name, field));
  }
  const usable = object?.recordTypes.filter(({ available }) => available) ?? [];
  fit.recordTypeIds = new Map(usable.map(({ developerName, id }) => [developerName.toLowerCase(), id]));
  const known = new Set(checked.misfits.map(({ name }) => name));
  fit.set([...checked.misfits, ...untyped(fields).filter(({ name }) => object !== null && !known.has(name))]);
  columns.learn(checked.missing);
}

function takeField(field: Field, name: string, checked: Checked): void {
  const size = checked.sizes.get(name);
  if (field.columns !== undefined && size !== undefined) field.columns = { ...field.columns, size };
  field.values = checked.values.get(name);
  field.length = checked.lengths.get(name);
  if (field.added === undefined) return;
  const type = checked.types.get(name);
  field.added.type = type;
  field.added.first ??= type;
  field.kind = type?.kind ?? 'unknown';
}

function changeOfType(name: string, { crm, added: { first, type } = { type: undefined } }: Field): Misfit[] {
  if (first === undefined || type === undefined) return [];
  const [before, after] = [nameOfType(first), nameOfType(type)];
  if (before === after) return [];
  const problem = `was ${before} when the gateway started and is ${after} now; restart the gateway to use it as it is`;
  return [{ kind: 'mismatch', name, column: crm.path, problem, needs: [] }];
}

function logChanges(log: Log, before: readonly OrgFault[], now: readonly OrgFault[]): boolean {
  const nameOf = (fault: OrgFault) => JSON.stringify(fault);
  const [known, found] = [new Set(before.map(nameOf)), new Set(now.map(nameOf))];
  for (const fault of now)
    if (!known.has(nameOf(fault))) log.warn({ ...fault }, 'Salesforce lacks what the gateway needs');
  const repaired = before.filter((fault) => !found.has(nameOf(fault)));
  for (const fault of repaired) log.info({ ...fault }, 'Salesforce now has what the gateway needs');
  return repaired.length > 0;
}
