import type { Call } from '../platform/base/call.ts';
import { Listeners } from '../platform/base/listeners.ts';
import type { Log } from '../platform/observability/log.ts';
import { listOf, type Resources, untyped } from '../records/mapping.ts';
import type { Resource } from '../records/resource.ts';
import { type Described, describeObjects } from './describe.ts';
import type { OptionalColumns } from './optional-columns.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { type Checked, checkResource } from './schema-check.ts';

/** Something in the org that does not fit, as the health report has it. */
export interface OrgFault {
  object: string;
  /** Null: the object itself. */
  field: string | null;
  problem: string;
}

/** What the org's objects are like, and what of them does not fit the declarations. */
export interface OrgSchema {
  readonly faults: readonly OrgFault[];
  /** Counts the changes of types. */
  readonly version: number;
  /** Columns of numbers, whose digits are kept as the CRM writes them. */
  readonly numberColumns: ReadonlySet<string>;
  /** Asks the CRM for the objects of all resources, in one call. Throws `Problem`, `CrmFailure`. */
  describe(call: Call): Promise<Described>;
  /** Takes a description: from here on requests are checked, queried and answered by it. Logs what has changed. */
  apply(described: Described): void;
  /** Notified when types have changed. */
  changed: Listeners<[]>;
  /** Notified when a request is refused for what the org is like: it may have changed. */
  refused: Listeners<[]>;
}

interface OrgSchemaOptions {
  resources: Resources;
  client: Pick<CrmClient, 'send' | 'dataPath'>;
  columnsOf: (resource: Resource) => OptionalColumns;
  log: Log;
}

export function createOrgSchema({ resources, client, columnsOf, log }: OrgSchemaOptions): OrgSchema {
  const all: readonly Resource[] = listOf(resources);
  const refused = new Listeners<[]>();
  const changed = new Listeners<[]>();
  for (const { fit } of all) fit.onRefused = () => void refused.notify();
  let faults: readonly OrgFault[] = [];
  let version = 0;
  let types = '';
  let numberColumns: ReadonlySet<string> = new Set();
  return {
    get faults() {
      return faults;
    },
    get version() {
      return version;
    },
    get numberColumns() {
      return numberColumns;
    },
    describe: (call) =>
      describeObjects(
        client,
        all.map(({ crmObject }) => crmObject),
        call,
      ),
    apply(described) {
      const checked = all.map(
        (resource) => [resource, checkResource(resource, described, resources.member.crmObject)] as const,
      );
      for (const [resource, found] of checked) take(resource, found, described, columnsOf(resource));
      const found = checked.flatMap(([{ crmObject }, { misfits }]) =>
        misfits.map(({ column, problem }) => ({ object: crmObject, field: column, problem })),
      );
      logChanges(log, faults, found);
      faults = found;
      const now = JSON.stringify(checked.map(([, one]) => [...one.types]));
      const isChanged = now !== types;
      types = now;
      version += Number(isChanged);
      numberColumns = new Set(all.flatMap(({ fields }) => Object.values(fields).flatMap(numberColumn)));
      if (isChanged) void changed.notify();
    },
    changed,
    refused,
  };
}

function numberColumn({ kind, crm }: Resource['fields'][string]): string[] {
  return kind === 'number' ? [crm.path] : [];
}

function take(resource: Resource, checked: Checked, described: Described, columns: OptionalColumns): void {
  const { fields, fit, crmObject } = resource;
  const object = described.get(crmObject.toLowerCase());
  if (object === undefined) return;
  for (const [name, field] of Object.entries(fields)) {
    const size = checked.sizes.get(name);
    if (field.columns !== undefined && size !== undefined) field.columns = { ...field.columns, size };
    if (field.added === undefined) continue;
    const type = checked.types.get(name);
    field.added.type = type;
    field.kind = type?.kind ?? 'unknown';
  }
  const usable = object?.recordTypes.filter(({ available }) => available) ?? [];
  fit.recordTypeIds = new Map(usable.map(({ developerName, id }) => [developerName.toLowerCase(), id]));
  const known = new Set(checked.misfits.map(({ name }) => name));
  fit.set([...checked.misfits, ...untyped(fields).filter(({ name }) => object !== null && !known.has(name))]);
  columns.learn(checked.missing);
}

/** Once for each change. */
function logChanges(log: Log, before: readonly OrgFault[], now: readonly OrgFault[]): void {
  const nameOf = (fault: OrgFault) => JSON.stringify(fault);
  const [known, found] = [new Set(before.map(nameOf)), new Set(now.map(nameOf))];
  for (const fault of now)
    if (!known.has(nameOf(fault))) log.warn({ ...fault }, 'the CRM does not have what the service needs');
  for (const fault of before)
    if (!found.has(nameOf(fault))) log.info({ ...fault }, 'the CRM has now what the service needs');
}
