import type { ItemOutcome, Operation, Reconciled } from '../../src/crm/batching/operation.ts';
import type { CrmFailure } from '../../src/crm/failure.ts';
import { failureOf } from '../../src/crm/rest/errors.ts';
import type { CrmRequest } from '../../src/crm/rest/request.ts';

/** What a record does to a call. */
export type Nature =
  | 'good'
  /** Breaks a validation rule. */
  | 'invalid'
  /** A trigger throws over it. */
  | 'thrown'
  /** A flow fails over it. */
  | 'flow'
  /** The JSON reader cannot take it. */
  | 'unreadable'
  /** Salesforce itself throws over it. */
  | 'exception'
  /** A trigger finds a row locked, until it has done so twice. */
  | 'locked'
  | 'unknown parent';

export interface ModelItem {
  id: number;
  nature: Nature;
}

interface ModelOptions {
  effect: 'create' | 'change';
  /** Records that a transaction takes. */
  capacity?: number;
  /** What it says of more. */
  sizeText?: string;
  /** Records that break rules fail the others of their call as well. */
  isRetryLimited?: boolean;
}

const answers: Record<Exclude<Nature, 'good'>, [string, string]> = {
  invalid: ['FIELD_CUSTOM_VALIDATION_EXCEPTION', 'No.'],
  thrown: ['CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', 'T: execution of BeforeInsert\n\ncaused by: System.X: y'],
  flow: ['CANNOT_EXECUTE_FLOW_TRIGGER', 'Este registro não pode ser salvo'],
  unreadable: ['JSON_PARSER_ERROR', 'Cannot deserialize'],
  exception: ['UNKNOWN_EXCEPTION', 'An unexpected error occurred. ErrorId: 1-2 (3)'],
  locked: ['CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', 'T: execution of AfterInsert … UNABLE_TO_LOCK_ROW, x: []'],
  'unknown parent': ['INVALID_CROSS_REFERENCE_KEY', 'invalid cross reference id'],
};
const retries = 'Too many batch retries in the presence of Apex triggers and partial failures.';

/** An org in memory with one object, as a batcher's operation. It makes no record of a call that it refuses. */
export class ModelOrg implements Operation<ModelItem, number> {
  readonly name = 'create';
  readonly effect: 'create' | 'change';
  /** Exchanges with it, reads included. */
  calls = 0;
  /** How often each record was written. */
  readonly written = new Map<number, number>();
  readonly #options: ModelOptions;
  readonly #request: CrmRequest;
  readonly #locks = new Map<number, number>();

  constructor(options: ModelOptions) {
    this.#options = options;
    this.effect = options.effect;
    const body = { Member__r: { External_Id__c: 'an External ID' } };
    this.#request = { operation: 'create', effect: options.effect, method: 'POST', path: '', body };
  }

  async reconcile(items: readonly ModelItem[]): Promise<Reconciled<number>[]> {
    this.calls += 1;
    return items.map(({ id }) => (this.written.has(id) ? { result: id } : 'not done'));
  }

  size(): number {
    return 0;
  }

  async execute(items: readonly ModelItem[]): Promise<ItemOutcome<number>[]> {
    this.calls += 1;
    const isAlone = items.length === 1;
    const has = (nature: Nature) => items.some((item) => item.nature === nature);
    if (has('unreadable')) throw this.#failure(answers.unreadable);
    if (has('exception')) throw this.#failure(answers.exception, 500);
    const own = (item: ModelItem) => item.nature === 'invalid' || item.nature === 'unknown parent';
    const others = items.filter((item) => !own(item));
    const refusal = this.#refusalOf(others, others.length < items.length);
    if (refusal !== undefined && isAlone && items[0]?.nature === 'locked') throw refusal;
    return items.map((item): ItemOutcome<number> => {
      if (own(item)) {
        const failure = this.#failure(answers[item.nature as 'invalid']);
        return { failure, ofItem: true, isAmbiguous: item.nature === 'unknown parent' };
      }
      if (refusal !== undefined) return { failure: refusal, ofItem: true };
      this.written.set(item.id, (this.written.get(item.id) ?? 0) + 1);
      return { result: item.id };
    });
  }

  /** What fails all of them. */
  #refusalOf(items: readonly ModelItem[], isPartial: boolean): CrmFailure | undefined {
    const { capacity = Number.POSITIVE_INFINITY, sizeText = 'T: execution', isRetryLimited } = this.#options;
    const bad = items.find(({ nature }) => nature === 'thrown' || nature === 'flow');
    if (bad !== undefined) return this.#failure(answers[bad.nature as 'thrown']);
    if (isRetryLimited && isPartial && items.length > 0) return this.#failure(['UNKNOWN_CODE', retries]);
    if (items.length > capacity) return this.#failure(['CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', sizeText]);
    const locked = items.find(({ nature, id }) => nature === 'locked' && (this.#locks.get(id) ?? 0) < 2);
    if (locked === undefined) return undefined;
    this.#locks.set(locked.id, (this.#locks.get(locked.id) ?? 0) + 1);
    return this.#failure(answers.locked);
  }

  #failure([errorCode, message]: [string, string], status = 400): CrmFailure {
    return failureOf(
      { status, headers: {}, body: [{ statusCode: errorCode, message, fields: [] }] },
      this.#request,
    );
  }
}
