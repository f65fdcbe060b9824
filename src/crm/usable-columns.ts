import { monotonicMs } from '../platform/base/chance.ts';
import type { Problem } from '../platform/base/problem.ts';
import { createdByFields } from '../records/created-by.ts';
import { includedName, ownerOfField, resourceKey } from '../records/members.ts';
import type { FieldValues } from '../records/records.ts';
import type { Field, Resource } from '../records/resource.ts';
import { type CrmError, CrmFailure, type FailureFacts } from './failure.ts';
import { namesIn } from './mapping/names.ts';

/*
 * Columns that a request leaves out, since the org does not have them, or does not show them to the integration user.
 *
 *   optional columns      that a newer package has, and those in which details go on. The service works without.
 *   columns of a misfit   of fields that are needed: what is read without them is not known, and a write of them is refused.
 *   absent fields         that a mapping says the org does not have.
 *
 * The descriptions of the objects say which these are, and the usable resource is computed from that. So do refusals: where the
 * CRM says that there is no such column, the request is sent again without it; nothing was done. Optional columns are left out then for a minute, spare ones for an hour.
 * After that one request tries them again, and the others do so once it has succeeded. Those of a misfit are named again when a description
 * has them.
 */

const lackingForMs = 60_000;
const spareForMs = 3_600_000;

interface Part {
  name: string;
  isSpare?: true | undefined;
  columns: readonly string[];
}

function partOf({ crm, optional, isSpare, isAbsent }: Field): Part | undefined {
  if (optional !== undefined && !isAbsent) return { name: optional, isSpare, columns: [crm.path] };
  return crm.continuations && { name: 'continuations', columns: crm.continuations };
}

function without(resource: Resource, isLeftOut: (part: string) => boolean): Resource {
  const fields = Object.entries(resource.fields).flatMap(([name, field]) => {
    if (field.isAbsent || isHidden(resource, name)) return [];
    const part = partOf(field);
    if (part === undefined || !isLeftOut(part.name)) return [[name, field] as const];
    return field.optional === undefined ? [[name, firstColumnOf(field)] as const] : [];
  });
  return { ...resource, fields: Object.fromEntries(fields) };
}

function isHidden(resource: Resource, field: string): boolean {
  const { fit, name } = ownerOfField(resource, field);
  return fit.hidden.has(name);
}

function firstColumnOf({ crm: { path }, columns, ...field }: Field): Field {
  return { ...field, crm: { path }, ...(columns && { columns: { ...columns, count: 1 } }) };
}

export function withFirstColumns(resource: Resource): Resource {
  return without(resource, (part) => part === 'continuations');
}

export function withKeyOnly(resource: Resource): Resource {
  const { id } = resource.fields;
  return { ...resource, fields: id === undefined ? {} : { id } };
}

export interface UsedColumns {
  resource: Resource;
  leftOut: ReadonlySet<string>;
  tried: readonly string[];
}

interface UsableColumnsOptions {
  resource: Resource;
  now: () => number;
}

export class UsableColumns {
  readonly #options: UsableColumnsOptions;
  readonly #lacking = new Map<string, number>();
  readonly #whole: UsedColumns;

  constructor(options: UsableColumnsOptions) {
    this.#options = options;
    const { resource } = options;
    const isWhole = Object.values(resource.fields).every(({ isAbsent }) => !isAbsent);
    const fields = Object.entries(resource.fields).filter(([, { isAbsent }]) => !isAbsent);
    const used = isWhole ? resource : { ...resource, fields: Object.fromEntries(fields) };
    this.#whole = { resource: used, leftOut: droppedOf(resource, used), tried: [] };
  }

  get resource(): Resource {
    return this.#options.resource;
  }

  /** Throws `CrmFailure` (setup) where the org lacks the object, or its External ID. */
  check(): void {
    const { fit } = this.#options.resource;
    if (fit.broken) throw misfitFailure(fit.refusal(fit.broken));
  }

  use(names: 'all' | readonly string[]): UsedColumns {
    const { resource } = this.#options;
    const { fit, included } = resource;
    const isShown = fit.hidden.size === 0 && !included?.member.fit.hidden.size;
    if (this.#lacking.size === 0 && isShown) return this.#whole;
    const now = this.#options.now();
    const isNamed = ([name]: [string, Field]) => names === 'all' || names.includes(name);
    const named = new Set(
      Object.entries(resource.fields)
        .filter(isNamed)
        .map(([, field]) => partOf(field)?.name),
    );
    const tried = [...this.#lacking].flatMap(([part, again]) =>
      now >= again && named.has(part) ? [part] : [],
    );
    for (const part of tried) this.#note(part);
    const used = without(resource, (part) => this.#lacking.has(part) && !tried.includes(part));
    return { resource: used, leftOut: droppedOf(resource, used), tried };
  }

  confirm({ tried }: UsedColumns): void {
    for (const part of tried) this.#lacking.delete(part);
  }

  /**
   * Whether the failure, a `CrmFailure` or what has one as its cause, says that columns are lacking which the request named: it
   * may be sent again then, without them. Has the org looked at.
   */
  learnFrom(error: unknown, used: UsedColumns): boolean {
    const parts = lackingParts(error, used);
    for (const part of parts) this.#note(part);
    const hidden = hiddenFields(error, used);
    const { fit } = this.#options.resource;
    for (const [field, { crm }] of hidden) {
      const { fit: own, name } = ownerOfField(this.#options.resource, field);
      own.note({ name, column: ownColumn(field, crm), ...isNotThere });
    }
    const isLearned = parts.length + hidden.length > 0;
    // The org is looked at for all else that may be missing.
    const { facts } = failureIn(error) ?? {};
    if (facts?.ofOrg?.length) void fit.onRefused({ about: aboutOf(facts.ofOrg, this.#options.resource) });
    return isLearned;
  }

  learn(missing: ReadonlySet<string>): void {
    for (const part of this.#parts()) {
      if (part.columns.some((column) => missing.has(column.toLowerCase()))) this.#note(part.name);
      else this.#lacking.delete(part.name);
    }
  }

  #parts(): Part[] {
    const parts = new Map<string, Part>();
    for (const part of Object.values(this.#options.resource.fields).flatMap((field) => partOf(field) ?? [])) {
      const { columns = [] } = parts.get(part.name) ?? {};
      parts.set(part.name, { ...part, columns: [...columns, ...part.columns] });
    }
    return [...parts.values()];
  }

  #note(part: string): void {
    const isSpare = this.#parts().some(({ name, isSpare: spare }) => name === part && spare);
    this.#lacking.set(part, this.#options.now() + (isSpare ? spareForMs : lackingForMs));
  }
}

export function withoutFields(values: FieldValues, leftOut: ReadonlySet<string>): FieldValues {
  if (leftOut.size === 0) return values;
  return Object.fromEntries(Object.entries(values).filter(([name]) => !leftOut.has(name)));
}

export interface NamedColumns {
  columns: UsableColumns;
  names?: 'all' | readonly string[];
}

export type UsedOfAll = ReadonlyMap<string, UsedColumns>;

export function usedOf(uses: UsedOfAll, resource: Resource): UsedColumns {
  return uses.get(resourceKey(resource)) ?? { resource, leftOut: new Set(), tried: [] };
}

/**
 * Sends a request that names columns of several objects: again without those that the org lacks, as soon as its failure says
 * so. `send` must throw what it fails with, a `CrmFailure` or what has one as its cause. Throws what it does, and `CrmFailure`.
 */
export async function sendUsable<T>(
  named: readonly NamedColumns[],
  send: (uses: UsedOfAll) => Promise<T>,
): Promise<T> {
  for (;;) {
    // Again, since a description may have come in between: without their keys, records that are read count as deleted.
    for (const { columns } of named) columns.check();
    const uses = named.map(({ columns, names = 'all' }) => ({ columns, used: columns.use(names) }));
    try {
      const result = await send(
        new Map(uses.map(({ columns, used }) => [resourceKey(columns.resource), used])),
      );
      for (const { columns, used } of uses) columns.confirm(used);
      return result;
    } catch (error) {
      if (!uses.some(({ columns, used }) => columns.learnFrom(error, used))) throw error;
    }
  }
}

export function misfitFailure(problem: Problem, facts: FailureFacts = {}): CrmFailure {
  return new CrmFailure('setup', problem.message, { ...facts, problem });
}

export const isNotThere = {
  kind: 'absent',
  problem: "doesn't exist, or the integration user can't see it",
  needs: ['read', 'write', 'filter'],
} as const;

function droppedOf(resource: Resource, used: Resource): ReadonlySet<string> {
  const dropped = Object.entries(resource.fields).filter(
    ([name, { optional, isAbsent }]) =>
      used.fields[name] === undefined && (optional !== undefined || isAbsent),
  );
  return new Set(dropped.map(([name]) => name));
}

export function isLacking(error: unknown, used: UsedColumns): boolean {
  return lackingParts(error, used).length + hiddenFields(error, used).length > 0;
}

function lackingParts(error: unknown, { resource }: UsedColumns): string[] {
  const { code, columns } = refusalOf(error);
  if (code !== 'INVALID_FIELD' && code !== 'INVALID_FIELD_FOR_INSERT_UPDATE') return [];
  const parts = Object.values(resource.fields).flatMap((field) => partOf(field) ?? []);
  const lacking = parts.filter((part) =>
    part.columns.some((column) => columns.includes(column.toLowerCase())),
  );
  return [...new Set(lacking.map(({ name }) => name))];
}

function hiddenFields(error: unknown, { resource }: UsedColumns): [string, Field][] {
  const { code, columns } = refusalOf(error);
  if (code !== 'INVALID_FIELD') return [];
  return Object.entries(resource.fields).filter(
    ([field, { crm, optional }]) =>
      ownerOfField(resource, field).name !== 'id' &&
      optional === undefined &&
      columns.includes(ownColumn(field, crm).toLowerCase()),
  );
}

/** Name of the column on its own object, as refusals have it. */
function ownColumn(field: string, crm: Field['crm']): string {
  const column = columnOf(crm);
  return includedName(field) === undefined ? column : column.slice(column.indexOf('.') + 1);
}

export function columnOf({ lookupColumn, path }: Field['crm']): string {
  return lookupColumn ?? path;
}

export function lacksOwner({ crmObject }: Resource): CrmFailure {
  const columns = Object.values(createdByFields).flatMap(({ crm, isSpare }) => (isSpare ? [] : [crm.path]));
  const lack = `${crmObject} lacks ${columns.join(', ')}, or the fields that the mapping names instead`;
  const advice = `In the CRM, ${lack}. Ask its operator to deploy the package in salesforce/.`;
  return new CrmFailure('setup', advice, { advice });
}

export function aboutOf(errors: readonly CrmError[], { fields, constants = {} }: Resource): string {
  const own = Object.values(fields).flatMap(({ crm }) => [columnOf(crm), ...(crm.continuations ?? [])]);
  const known = new Set([...own, ...Object.keys(constants)].map((column) => column.toLowerCase()));
  // Not the words in quotes that are none: requests could make up ever new ones.
  const columnsOf = (error: CrmError) => [
    ...error.fields.map((name) => name.toLowerCase()),
    ...namedBy(error).filter((name) => known.has(name)),
  ];
  const abouts = errors.map((error) => [error.code, ...new Set(columnsOf(error).toSorted())].join(' '));
  return [...new Set(abouts)].toSorted().join(', ').slice(0, longestAbout);
}

const longestAbout = 500;

export function namedBy(error: Pick<CrmError, 'message' | 'fields'>): string[] {
  return namesIn(error).map((name) => name.toLowerCase());
}

function refusalOf(error: unknown): { code: string; columns: string[] } {
  const refusal = failureIn(error)?.facts.error ?? noError;
  return { code: refusal.code, columns: namedBy(refusal) };
}

/** The failure, or that of which a problem was made. */
export function failureIn(error: unknown): CrmFailure | undefined {
  const failure = error instanceof Error && error.cause instanceof CrmFailure ? error.cause : error;
  return failure instanceof CrmFailure ? failure : undefined;
}

const noError: CrmError = { code: '', message: '', fields: [] };

export function createColumns() {
  const all = new Map<string, UsableColumns>();
  return (resource: Resource): UsableColumns => {
    const key = resourceKey(resource);
    const columns = all.get(key) ?? new UsableColumns({ resource, now: () => monotonicMs() });
    all.set(key, columns);
    return columns;
  };
}
