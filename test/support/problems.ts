import assert from 'node:assert/strict';
import { eventually } from './eventually.ts';

export interface ProblemBody {
  code: string;
  detail: string;
  status: number;
  request_id: string;
  errors?: Record<string, string>[];
  required?: object;
  retry_after?: number;
  external_id?: string;
  cause?: string;
}

/** Asserts that an answer is this problem and names these pointers, parameters or headers, and returns it. */
export async function assertProblem(
  response: Response,
  status: number,
  code: string,
  ...sources: string[]
): Promise<ProblemBody> {
  const text = await response.text();
  assert.equal(response.headers.get('content-type'), 'application/problem+json', text);
  const problem = JSON.parse(text) as ProblemBody;
  assert.equal(problem.code, code, text);
  assert.equal(response.status, status, text);
  assert.equal(problem.status, status);
  assert.equal(problem.request_id, response.headers.get('x-request-id'));
  const named = problem.errors?.map((fault) => fault.pointer ?? fault.header ?? fault.parameter) ?? [];
  assert.deepEqual(named.sort(), sources.sort(), text);
  return problem;
}

/**
 * Sends again, as the answer advises, where the database of a busy machine took too long. `send` sends the same key each time,
 * if any. Rejects as `send` does.
 */
export async function pastSlowStore<T>(send: () => Promise<T>, textOf: (answer: T) => string): Promise<T> {
  const { sent } = await eventually(
    async () => {
      const sent = send();
      const text = await sent.then(textOf, () => '');
      assert.doesNotMatch(text, /^\{"type":"\/v1\/problems\/store_unavailable"/);
      return { sent };
    },
    { everyMs: 500 },
  );
  return sent;
}
