import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** As far as our file uses Arazzo 1.0. */
interface Step {
  stepId: string;
  operationId: string;
  parameters?: { name: string; in: 'path' | 'query' | 'header'; value: unknown }[];
  requestBody?: { contentType: string; payload: Record<string, unknown> };
  successCriteria: { condition: string }[];
  onFailure?: { type: string; retryAfter: number; retryLimit: number }[];
  outputs?: Record<string, string>;
}

export interface Workflow {
  workflowId: string;
  inputs: { required: string[] };
  steps: Step[];
}

interface Answer {
  status: number;
  headers: Headers;
  body: unknown;
}

type Operations = Map<string, { method: string; path: string }>;

/** The operations of an OpenAPI document, by their ids. */
export function operationsOf(document: object): Operations {
  const { paths } = document as { paths: Record<string, Record<string, { operationId: string }>> };
  return new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId }]) => [operationId, { method, path }] as const),
    ),
  );
}

/** Carries a workflow out, and asserts that each step succeeds. */
export async function runWorkflow(
  { steps }: Workflow,
  operations: Operations,
  url: string,
  inputs: Record<string, string>,
): Promise<void> {
  const outputs = new Map<string, unknown>();
  for (const step of steps) {
    const [retry] = step.onFailure ?? [];
    for (let left = retry?.retryLimit ?? 0; ; left--) {
      const answer = await send(step, operations, url, (value) => evaluate(value, { inputs, outputs }));
      const scope = { inputs, outputs, answer };
      const failed = step.successCriteria.find(({ condition }) => !isTrue(condition, scope));
      if (failed === undefined) {
        for (const [name, value] of Object.entries(step.outputs ?? {}))
          outputs.set(`${step.stepId}.${name}`, evaluate(value, scope));
        break;
      }
      assert.ok(retry && left > 0, `${step.stepId}: ${failed.condition}, ${JSON.stringify(answer)}`);
      await sleep(retry.retryAfter * 1000);
    }
  }
}

async function send(
  { operationId, parameters = [], requestBody }: Step,
  operations: Operations,
  url: string,
  value: (of: unknown) => unknown,
): Promise<Answer> {
  const operation = operations.get(operationId);
  assert.ok(operation, operationId);
  let { path } = operation;
  const query = new URLSearchParams();
  const headers = new Headers();
  for (const parameter of parameters) {
    const text = String(value(parameter.value));
    if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, encodeURIComponent(text));
    else if (parameter.in === 'query') query.set(parameter.name, text);
    else headers.set(parameter.name, text);
  }
  let body: string | undefined;
  if (requestBody) {
    const payload = value(requestBody.payload) as Record<string, string>;
    headers.set('content-type', requestBody.contentType);
    const isForm = requestBody.contentType !== 'application/json';
    body = isForm ? new URLSearchParams(payload).toString() : JSON.stringify(payload);
  }
  const response = await fetch(`${url}${path}?${query.toString()}`, {
    ...{ method: operation.method.toUpperCase(), headers },
    ...(body !== undefined && { body }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) };
}

interface Scope {
  inputs: Record<string, string>;
  outputs: Map<string, unknown>;
  answer?: Answer;
}

function isTrue(condition: string, scope: Scope): boolean {
  const [left = '', right = ''] = condition.split(' == ');
  return evaluate(left, scope) === (right.startsWith('$') ? evaluate(right, scope) : literal(right));
}

function literal(text: string): unknown {
  return text.startsWith("'") ? text.slice(1, -1) : JSON.parse(text);
}

/** A value with its runtime expressions replaced. */
function evaluate(value: unknown, scope: Scope): unknown {
  if (typeof value === 'string') {
    if (value.startsWith('$')) return resolve(value, scope);
    return value.replaceAll(/\{(\$[^}]+)\}/g, (_, expression: string) => String(resolve(expression, scope)));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, evaluate(part, scope)]));
}

function resolve(expression: string, scope: Scope): unknown {
  const [, kind = '', rest = ''] = kinds.exec(expression) ?? [];
  const read = readers[kind];
  assert.ok(read, expression);
  return read(scope, rest);
}

const kinds = /^\$(inputs|steps|statusCode|response\.header|response\.body)[.#]?(.*)$/;

const readers: Record<string, (scope: Scope, rest: string) => unknown> = {
  inputs: ({ inputs }, name) => inputs[name],
  steps: ({ outputs }, name) => outputs.get(name.replace('.outputs.', '.')),
  statusCode: ({ answer }) => answer?.status,
  'response.header': ({ answer }, name) => answer?.headers.get(name),
  'response.body': ({ answer }, pointer) => {
    let found: unknown = answer?.body;
    for (const name of pointer.split('/').slice(1))
      found = (found as Record<string, unknown> | undefined)?.[name];
    return found;
  },
};
