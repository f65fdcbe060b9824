import { Problem } from '../platform/base/problem.ts';

/** What is impossible in the org as it is: to read a field, to write it, to filter by it, or to create a record. */
export type Need = 'read' | 'write' | 'filter' | 'create';

/** Something of a resource that does not fit the org. */
export interface Misfit {
  /** The API's field; undefined: it is about the whole object. */
  name?: string | undefined;
  /** The CRM's column; null: the object itself. */
  column: string | null;
  /** The end of a sentence that begins with the column. */
  problem: string;
  /** What is impossible; nothing: the service works without. */
  needs: readonly Need[];
}

/**
 * What does not fit between a resource and the org, as far as is known now. It changes while the service runs: when the org
 * was looked at, and when the CRM refuses a column.
 */
export class OrgFit {
  readonly #object: string;
  #misfits: readonly Misfit[] = [];
  /** Fields that can't be read, by API name. */
  hidden: ReadonlySet<string> = new Set();
  /** Ids of the object's record types by developer name in lower case. */
  recordTypeIds: ReadonlyMap<string, string> = new Map();
  /** Called where a request is refused for one of them: the org may have been repaired. */
  onRefused: () => void = () => undefined;

  constructor(object: string) {
    this.#object = object;
  }

  /** All that is known, in the place of what was known before. */
  set(misfits: readonly Misfit[]): void {
    this.#misfits = misfits;
    this.hidden = new Set(
      misfits.flatMap(({ name, needs }) => (name && needs.includes('read') ? [name] : [])),
    );
  }

  /** One more, as a refusal of the CRM has shown. */
  note(misfit: Misfit): void {
    const isKnown = this.#misfits.some(
      ({ name, problem }) => name === misfit.name && problem === misfit.problem,
    );
    if (!isKnown) this.set([...this.#misfits, misfit]);
  }

  /** Why this is impossible; undefined where it is possible. */
  why(need: Need, name: string): Misfit | undefined {
    return this.#misfits.find(
      (misfit) => misfit.needs.includes(need) && (misfit.name === name || misfit.name === undefined),
    );
  }

  /** The id of a record type, by its developer name; undefined where the org has none that the user may use, or did not say yet. */
  recordTypeId(developerName: string): string | undefined {
    return this.recordTypeIds.get(developerName.toLowerCase());
  }

  get isWhole(): boolean {
    return this.#misfits.length === 0;
  }

  /** Why no record can be read; undefined where the object and its External IDs are there. */
  get broken(): Misfit | undefined {
    return this.#misfits.find(
      ({ name, needs }) => needs.includes('read') && (name === undefined || name === 'id'),
    );
  }

  /** The column that records must have and that nothing sets, or whose constant the org does not take. */
  whyNotCreated(columns: readonly string[]): Misfit | undefined {
    const wanted = columns.map((column) => column.toLowerCase());
    return this.#misfits.find(
      ({ needs, column }) =>
        needs.includes('create') && column !== null && wanted.includes(column.toLowerCase()),
    );
  }

  /** Throws `crm_error` that names the first of these fields with which this is impossible. */
  require(need: Need, names: readonly string[]): void {
    if (this.#misfits.length === 0) return;
    for (const name of names) {
      const misfit = this.why(need, name);
      if (misfit !== undefined) throw this.refusal(misfit);
    }
  }

  /** Throws `crm_error` for a field that an answer shows and the org did not. */
  requireShown(name: string, column: string): never {
    const unseen: Misfit = { name, column, problem: 'was not shown', needs: [] };
    throw this.refusal(this.why('read', name) ?? unseen);
  }

  /** The answer to a request that needs what does not fit. */
  refusal({ name, column, problem }: Misfit): Problem {
    this.onRefused();
    const where = column === null ? this.#object : `${this.#object}.${column}`;
    const subject = name === undefined ? where : `${name} (${where})`;
    return new Problem('crm_error', `The CRM is not set up as the service needs it: ${subject} ${problem}.`);
  }
}
