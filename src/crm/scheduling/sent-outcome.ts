import { Problem } from '../../platform/base/problem.ts';
import type { ProblemCode, ProblemFacts } from '../../platform/base/problems.ts';
import { CrmFailure, type FailureFacts, type FailureKind } from '../rest/failure.ts';

interface SentFailure {
  kind: FailureKind;
  message: string;
  facts: Omit<FailureFacts, 'problem'>;
  problem?: { code: ProblemCode; detail: string; facts: ProblemFacts };
}

/**
 * The outcome of a forwarded request. `not executed`: its sender has to send it to the CRM, or, for a read, the answer is too
 * large to return.
 */
export type SentOutcome = { result?: unknown } | { failure: SentFailure } | 'not executed';

/** An error as it is sent to another replica. */
export function toSent(error: unknown): SentOutcome {
  const failure =
    error instanceof CrmFailure
      ? error
      : new CrmFailure('broken', 'an error of another replica', { outcomeUnknown: true });
  const { problem, ...facts } = failure.facts;
  const sent: SentFailure = { kind: failure.kind, message: failure.message, facts };
  if (problem === undefined) return { failure: sent };
  // The cause is for the log of the replica that has it.
  const { cause: _, ...problemFacts } = problem.facts;
  return {
    failure: { ...sent, problem: { code: problem.code, detail: problem.message, facts: problemFacts } },
  };
}

export function fromSent({ kind, message, facts, problem }: SentFailure): CrmFailure {
  if (problem === undefined) return new CrmFailure(kind, message, facts);
  return new CrmFailure(kind, message, {
    ...facts,
    problem: new Problem(problem.code, problem.detail, problem.facts),
  });
}
