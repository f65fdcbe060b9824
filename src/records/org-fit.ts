import { Problem, type ProblemFacts } from '../platform/base/problem.ts';

/** `see all`: no request needs it, but records of others are missing without it. */
export type Need = 'read' | 'write' | 'filter' | 'create' | 'delete' | 'see all';

export type MisfitKind =
  | 'absent'
  | 'permission'
  | 'read only'
  | 'unset'
  | 'constant'
  | 'length'
  | 'values'
  | 'key'
  | 'mismatch';

export interface Misfit {
  kind: MisfitKind;
  /** The API's field; undefined: it is about the whole object. */
  name?: string | undefined;
  /** The CRM's column; null: the object itself. */
  column: string | null;
  /** The end of a sentence that begins with the column. */
  problem: string;
  needs: readonly Need[];
}

export interface OrgRefusal {
  /**
   * Subject, such as the code and the fields of an error: for one subject the org is looked at once in 5 minutes. None for
   * something that is known not to fit, and may have been repaired.
   */
  about?: string;
  /** Milliseconds that the caller may wait for it. */
  waitMs?: number;
  /** It is the service's own, by what it knows of the org: what has just changed may soon change back. */
  isOwn?: boolean;
}

/** Asks for a look at the org. Resolves, never rejects: true once it was looked at, false where that is not to be waited for. */
export type LookAtOrg = (refusal?: OrgRefusal) => Promise<boolean>;

/**
 * Misfits between a resource and the org, as far as is known now. They change while the service runs: when the org was
 * looked at, and when the CRM refuses a column.
 */
export class OrgFit {
  readonly #object: string;
  #misfits: readonly Misfit[] = [];
  hidden: ReadonlySet<string> = new Set();
  /** Ids of the object's record types by developer name in lower case. */
  recordTypeIds: ReadonlyMap<string, string> = new Map();
  laterStatuses: readonly string[] = [];
  onRefused: LookAtOrg = async () => false;

  constructor(object: string) {
    this.#object = object;
  }

  set(misfits: readonly Misfit[]): void {
    this.#misfits = misfits;
    this.hidden = new Set(
      misfits.flatMap(({ name, needs }) => (name && needs.includes('read') ? [name] : [])),
    );
  }

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

  whyRefused(need: Need, columns: readonly string[]): Misfit | undefined {
    const wanted = columns.map((column) => column.toLowerCase());
    return (
      this.#misfits.find(({ column }) => column !== null && wanted.includes(column.toLowerCase())) ??
      this.#misfits.find(({ column, needs }) => column === null && needs.includes(need))
    );
  }

  whyUnfit(names: readonly string[]): Misfit | undefined {
    return this.#misfits.find(({ name }) => name !== undefined && names.includes(name));
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
    const unseen: Misfit = { kind: 'absent', name, column, problem: "wasn't returned", needs: [] };
    throw this.refusal(this.why('read', name) ?? unseen);
  }

  refusal(misfit: Misfit, facts?: ProblemFacts): Problem {
    void this.onRefused();
    return this.problemOf(misfit, facts);
  }

  problemOf({ name, column, problem }: Misfit, facts: ProblemFacts = {}): Problem {
    const where = column === null ? this.#object : `${this.#object}.${column}`;
    const subject = name === undefined ? where : `${name} (${where})`;
    const detail = `The CRM isn't set up the way the gateway needs it: ${subject} ${problem}. ${remedy}`;
    return new Problem('crm_error', detail, { ...facts, isOfOrg: true });
  }

  lookAgain(about: string): Pick<ProblemFacts, 'lookAgain'> {
    return { lookAgain: () => this.onRefused({ about, waitMs: 1000, isOwn: true }) };
  }
}

/** Without those that the org lacks. All where it lacks all: the CRM then says why nothing can be read. */
export function readable<R extends { fit: OrgFit }>(resources: readonly R[]): readonly R[] {
  const there = resources.filter(({ fit }) => fit.broken === undefined);
  return there.length > 0 ? there : resources;
}

const remedy = 'Ask its operator to undo the change in Salesforce, or to adapt the mapping.';
