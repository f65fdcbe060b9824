import { ownableResources } from '../../identity/consumers/consumer.ts';
import { type Problem, type ProblemCode, problems } from '../../platform/base/problem.ts';
import {
  exampleProblem,
  exampleRequestId,
  isFinal,
  problemAnswer,
  problemContentType,
} from '../pipeline/answer.ts';
import { headTooLarge } from '../pipeline/answer-errors.ts';
import { tooSlow } from '../pipeline/body.ts';
import { isPublic, type Permission, type Route } from '../route.ts';
import { type HeaderName, headerRefs, usualHeaders } from './headers.ts';
import { faultSchema, problemSchema } from './problem-schema.ts';
import type { JsonObject } from './schemas.ts';

export function problemCodes(route: Route): ProblemCode[] {
  const { permission, signature, request, conditional, idempotencyKey } = route;
  const codes: ProblemCode[] = [
    'invalid_request',
    'method_not_allowed',
    'rate_limited',
    'allowance_exhausted',
    'internal_error',
  ];
  if (!isPublic(permission)) codes.push(...codesOf(permission));
  if (signature) codes.push('invalid_credentials', 'secrets_unavailable');
  if (request.params) codes.push('not_found');
  // The body of a GET is not read; any other is read before it can be refused.
  if (route.method !== 'GET') codes.push('malformed_json', 'payload_too_large', 'unsupported_media_type');
  if (conditional === 'If-Match') codes.push('precondition_failed');
  if (idempotencyKey === 'required') codes.push('idempotency_key_missing');
  if (idempotencyKey !== 'ignored') {
    codes.push(
      'idempotency_key_invalid',
      'idempotency_key_reused',
      'idempotency_in_progress',
      'store_unavailable',
    );
  }
  return [...new Set([...codes, ...route.problems])];
}

function codesOf(permission: Exclude<Permission, { none: string }>): ProblemCode[] {
  const codes: ProblemCode[] = ['invalid_credentials', 'address_not_allowed'];
  if (!('anyCredentials' in permission)) codes.push('permission_denied');
  const isChange = 'resource' in permission && permission.action !== 'read';
  if (isChange && ownableResources.includes(permission.resource)) codes.push('approval_required');
  return codes;
}

export function createProblemResponses() {
  const responses: JsonObject = Object.fromEntries(
    incomplete.map(([name, problem]) => [name, incompleteResponse(name, problem)]),
  );
  const examples: JsonObject = Object.fromEntries(
    incomplete.map(([name, problem]) => [name, exampleOf(problem)]),
  );
  const respond = (codes: ProblemCode[], route: Route): JsonObject => {
    for (const code of codes) examples[code] ??= exampleOf(exampleProblem(code));
    const name = nameOf(codes, route);
    responses[name] ??= response(codes, route);
    return componentRef('responses', name);
  };
  return {
    of(route: Route): JsonObject {
      const documented = [...codesByStatus(route)].filter(([status]) => !(status in route.answers));
      return {
        ...Object.fromEntries(documented.map(([status, codes]) => [status, respond(codes, route)])),
        ...Object.fromEntries(
          incomplete.map(([name, { status }]) => [status, componentRef('responses', name)]),
        ),
      };
    },
    components: { responses, examples, schemas: { Problem: problemSchema, Fault: faultSchema } },
  };
}

export type ProblemResponses = ReturnType<typeof createProblemResponses>;

function codesByStatus(route: Route): Map<number, ProblemCode[]> {
  const order = Object.keys(problems) as ProblemCode[];
  const wanted = new Set(problemCodes(route));
  const codes = order.filter((code) => wanted.has(code));
  return Map.groupBy(codes, (code) => problems[code].status);
}

function nameOf(codes: ProblemCode[], route: Route): string {
  const parts = [
    codes.map(pascalCase).join('Or'),
    isKeyed(route) && codes.some(isKept) ? 'Keyed' : '',
    route.deprecation ? 'Deprecated' : '',
  ];
  return parts.join('');
}

function isKeyed({ idempotencyKey }: Route): boolean {
  return idempotencyKey !== 'ignored';
}

function response(codes: ProblemCode[], route: Route): JsonObject {
  return {
    description: codes.map((code) => `\`${code}\`: ${problems[code].title}.`).join('\n\n'),
    headers: headerRefs(headersOf(codes, route)),
    content: contentWith(codes),
  };
}

const incomplete = Object.entries({ RequestTimeout: tooSlow(), RequestHeaderFieldsTooLarge: headTooLarge() });

function incompleteResponse(name: string, { message }: Problem): JsonObject {
  return {
    description: `\`invalid_request\`: ${message}`,
    headers: headerRefs(['X-Request-Id', 'Cache-Control', 'Handoff-Mode', 'RateLimit-Policy', 'RateLimit']),
    content: contentWith([name]),
  };
}

function contentWith(examples: string[]): JsonObject {
  const refs = examples.map((name) => [name, componentRef('examples', name)] as const);
  return {
    [problemContentType]: {
      schema: componentRef('schemas', 'Problem'),
      examples: Object.fromEntries(refs),
    },
  };
}

function componentRef(section: string, name: string): JsonObject {
  return { $ref: `#/components/${section}/${name}` };
}

function headersOf(codes: ProblemCode[], route: Route): Set<HeaderName> {
  const names = new Set<HeaderName>(usualHeaders(route, true));
  for (const code of codes) {
    if (exampleProblem(code).facts.retryAfter !== undefined) names.add('Retry-After');
    if (code === 'invalid_credentials') names.add('WWW-Authenticate');
    if (code === 'permission_denied') names.add('Scope-Challenge');
    if (code === 'method_not_allowed') names.add('Allow');
    if (isKeyed(route) && isKept(code)) names.add('Idempotent-Replayed');
  }
  return names;
}

function isKept(code: ProblemCode): boolean {
  return isFinal(exampleProblem(code)) && code !== 'idempotency_key_reused';
}

function exampleOf(problem: Problem): JsonObject {
  const answer = problemAnswer(problem, exampleRequestId, true);
  return { summary: problems[problem.code].title, value: JSON.parse(answer.body) as unknown };
}

function pascalCase(code: ProblemCode): string {
  return code.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
}
