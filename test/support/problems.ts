import assert from 'node:assert/strict';

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
