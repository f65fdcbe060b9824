import type { Log } from '../platform/observability/log.ts';
import { createdByFields } from '../records/created-by.ts';
import type { Field, Resource } from '../records/resource.ts';
import { CrmFailure } from './rest/failure.ts';

/*
 * Columns that a newer package has and an org may lack. No call is spent to find out: a request names them, and where
 * the CRM says that there is no such column, it is sent again without them; nothing was done. All columns that were added
 * together are left out then for a minute. After that one request tries them again, and the others do so once it
 * has succeeded. So an org that gets the package later needs no restart, and one that never does costs a call a minute.
 */

/** How long columns are left out before they are tried again. */
const lackingForMs = 60_000;

/** Columns that were added together: an org has all of them or counts as one that lacks them. */
interface Part {
  name: string;
  columns: readonly string[];
}

/** What of a field an org may lack: its column, or those in which its text goes on. */
function partOf({ crm, optional }: Field): Part | undefined {
  if (optional !== undefined) return { name: optional, columns: [crm.path] };
  return crm.continuations && { name: 'continuations', columns: crm.continuations };
}

/** The resource without these parts. */
function without(resource: Resource, isLeftOut: (part: string) => boolean): Resource {
  const fields = Object.entries(resource.fields).flatMap(([name, field]) => {
    const part = partOf(field);
    if (part === undefined || !isLeftOut(part.name)) return [[name, field] as const];
    return field.optional === undefined ? [[name, firstColumnOf(field)] as const] : [];
  });
  return { ...resource, fields: Object.fromEntries(fields) };
}

function firstColumnOf({ crm: { path }, columns, ...field }: Field): Field {
  return { ...field, crm: { path }, ...(columns && { columns: { ...columns, count: 1 } }) };
}

/** The resource with the first column of each long text only. */
export function withFirstColumns(resource: Resource): Resource {
  return without(resource, (part) => part === 'continuations');
}

/** A resource's columns as one request may name them. */
export interface UsedColumns {
  /** The resource without what is left out. */
  resource: Resource;
  /** API names of the fields that are left out: their values are not written. */
  leftOut: ReadonlySet<string>;
}

export interface OptionalColumnsOptions {
  resource: Resource;
  log: Log;
  /** Milliseconds of any steady clock. */
  now: () => number;
}

interface Used extends UsedColumns {
  /** Names of those that this request tries again. */
  tried: readonly string[];
}

/** Which of the optional columns of one object the org has, as far as requests have shown. */
export class OptionalColumns {
  readonly #options: OptionalColumnsOptions;
  /** By the name of columns that belong together: when to try them again. */
  readonly #lacking = new Map<string, number>();

  constructor(options: OptionalColumnsOptions) {
    this.#options = options;
  }

  /** With the columns that every org has. */
  get withoutOptional(): Resource {
    return without(this.#options.resource, () => true);
  }

  /** With all its columns. */
  get resource(): Resource {
    return this.#options.resource;
  }

  /**
   * Sends a request that names columns of these fields, by API name, or of all: again without those that the org lacks,
   * as soon as its failure says so. `send` must throw what it fails with, a `CrmFailure` or what has one as its cause.
   */
  async send<T>(names: 'all' | readonly string[], send: (used: UsedColumns) => Promise<T>): Promise<T> {
    for (;;) {
      const used = this.#use(names);
      try {
        const result = await send(used);
        this.#confirm(used);
        return result;
      } catch (error) {
        if (!this.#learnFrom(error, used)) throw error;
      }
    }
  }

  /** What is lacking, as the CRM names it: `Quote__c lacks Consumer_Id__c and Actor__c`; undefined where nothing is. */
  get lack(): string | undefined {
    const parts = Object.values(this.#options.resource.fields).map(partOf);
    const columns = parts.flatMap((part) => (part && this.#lacking.has(part.name) ? part.columns : []));
    return columns.length === 0 ? undefined : describeLack(this.#options.resource, columns);
  }

  #use(names: 'all' | readonly string[]): Used {
    const { resource } = this.#options;
    if (this.#lacking.size === 0) return { resource, leftOut: new Set(), tried: [] };
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
    for (const part of tried) this.#lacking.set(part, now + lackingForMs);
    const used = without(resource, (part) => this.#lacking.has(part) && !tried.includes(part));
    const leftOut = Object.keys(resource.fields).filter((name) => used.fields[name] === undefined);
    return { resource: used, leftOut: new Set(leftOut), tried };
  }

  #confirm({ tried }: Used): void {
    const { resource, log } = this.#options;
    for (const part of tried) {
      if (this.#lacking.delete(part))
        log.info({ object: resource.crmObject, part }, 'the CRM has columns now that it lacked');
    }
  }

  /** Whether the failure says that columns are lacking which the request named. */
  #learnFrom(error: unknown, used: Used): boolean {
    const parts = lackingParts(error, used);
    for (const part of parts) this.#note(part);
    return parts.length > 0;
  }

  #note(part: string): void {
    const { log, now } = this.#options;
    const isNew = !this.#lacking.has(part);
    this.#lacking.set(part, now() + lackingForMs);
    if (isNew) log.warn({ lack: this.lack }, 'the CRM lacks columns; they are left out');
  }
}

/** Whether a failure says that the org lacks an optional column which the request named. */
export function isLacking(error: unknown, used: UsedColumns): boolean {
  return lackingParts(error, used).length > 0;
}

function lackingParts(error: unknown, { resource }: UsedColumns): string[] {
  const columns = namedBy(error);
  if (columns.length === 0) return [];
  const parts = Object.values(resource.fields).flatMap((field) => partOf(field) ?? []);
  const lacking = parts.filter((part) =>
    part.columns.some((column) => columns.includes(column.toLowerCase())),
  );
  return [...new Set(lacking.map(({ name }) => name))];
}

/** What an org lacks. */
function describeLack({ crmObject }: Resource, columns: readonly string[]): string {
  return `${crmObject} lacks ${columns.join(', ')}`;
}

const lackAdvice = 'Deploy the package in salesforce/ and assign its permission set to the integration user.';

/** For a request that needs to know who made a record, in an org that has no columns for it. */
export function lacksOwner(resource: Resource): CrmFailure {
  const columns = Object.values(createdByFields).map(({ crm }) => crm.path);
  const advice = `In the CRM ${describeLack(resource, columns)}: its operator has to deploy the package in salesforce/.`;
  return new CrmFailure('setup', advice, { advice });
}

/** The columns in lower case that the CRM says are not there, or not for the user. */
function namedBy(error: unknown): string[] {
  const failure = error instanceof Error && error.cause instanceof CrmFailure ? error.cause : error;
  const { code, message, fields } = (failure instanceof CrmFailure && failure.facts.error) || noError;
  if (code !== 'INVALID_FIELD' && code !== 'INVALID_FIELD_FOR_INSERT_UPDATE') return [];
  const quoted = /No such column '([^']{1,80})'/i.exec(message)?.[1];
  return [...(quoted === undefined ? [] : [quoted]), ...fields].map((name) => name.toLowerCase());
}

const noError = { code: '', message: '', fields: [] };

/** What is known of the columns of all resources. */
export function createColumns(log: Log) {
  const all = new Map<string, OptionalColumns>();
  return {
    of(resource: Resource): OptionalColumns {
      const known = all.get(resource.name);
      const columns = known ?? new OptionalColumns({ resource, log, now: () => performance.now() });
      all.set(resource.name, columns);
      return columns;
    },
    /** What the org lacks, for people; undefined where nothing is known to lack. */
    lacks(): string | undefined {
      const lacks = [...all.values()].flatMap(({ lack }) => lack ?? []);
      return lacks.length === 0 ? undefined : `${lacks.join('; ')}. ${lackAdvice}`;
    },
  };
}
