import { type ProblemCode, type ProblemFacts, problems } from './problems.ts';

/**
 * An error with a code of the table, a sentence for the caller, and facts. The message may leave the service. Inner
 * layers throw it; `api/pipeline/problem-answer.ts` alone turns it into HTTP.
 */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly facts: ProblemFacts;

  constructor(code: ProblemCode, detail: string, facts: ProblemFacts = {}) {
    super(detail, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'Problem';
    this.code = code;
    this.facts = facts;
  }

  get status(): number {
    return this.facts.status ?? problems[this.code].status;
  }
}

export async function withSecondLook<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isWorthIt = error instanceof Problem && (await error.facts.lookAgain?.());
    if (!isWorthIt) throw error;
    return work();
  }
}
