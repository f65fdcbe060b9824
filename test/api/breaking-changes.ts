import { isDeepStrictEqual } from 'node:util';
import { compareSpecs } from '@useoptic/openapi-utilities';
import { RuleRunner } from '@useoptic/rulesets-base';
import { BreakingChangesRuleset } from '@useoptic/standard-rulesets';
import { apiCompare } from 'api-smart-diff';

type Json = Record<string, unknown>;

interface Operation {
  security?: unknown[];
  responses: Json;
  requestBody?: { content: Record<string, { schema: { properties?: Json } }> };
}

export interface OpenApi extends Json {
  paths: Record<string, Record<string, Operation>>;
}

/**
 * What would break a consumer of the older document. Two tools look, since each misses kinds of changes that the other
 * sees, and two rules of this API that neither can know: requests are closed, and public operations stay public.
 */
export async function breakingChanges(before: OpenApi, after: OpenApi): Promise<string[]> {
  const [old, young] = [resolved(before), resolved(after)];
  const findings = [...smartDiff(before, after), ...(await optic(old, young)), ...ofThisApi(old, young)];
  return [...new Set(findings)];
}

function smartDiff(before: OpenApi, after: OpenApi): string[] {
  return (
    apiCompare(before, after)
      .diffs.filter(({ type }) => type === 'breaking')
      // A further way to sign in breaks nobody; an operation that asks for it is seen by what it asks for.
      .filter(({ action, path }) => !(action === 'add' && path[1] === 'securitySchemes'))
      .map(({ action, path }) => `${action} ${path.join(' ')}`)
  );
}

/** The rules of Optic, which take minutes for whole documents: it gets the operations that have changed. */
async function optic(before: OpenApi, after: OpenApi): Promise<string[]> {
  const rules = new RuleRunner([new BreakingChangesRuleset()]);
  const [old, young] = [withoutCommon(before, after), withoutCommon(after, before)];
  const { results } = await compareSpecs(
    { jsonLike: old, sourcemap: undefined } as never,
    { jsonLike: young, sourcemap: undefined } as never,
    rules,
    {},
  );
  return results.filter(({ passed }) => !passed).map(({ where, error }) => `${where}: ${error}`);
}

/** The document without what stands in the other just the same: whole operations, and answers of the others. */
function withoutCommon(document: OpenApi, other: OpenApi): Json {
  const paths = Object.entries(document.paths).map(([path, operations]) => {
    const entries = Object.entries(operations)
      .filter(([method, operation]) => !isDeepStrictEqual(operation, other.paths[path]?.[method]))
      .map(([method, operation]) => {
        const known = other.paths[path]?.[method]?.responses ?? {};
        const responses = Object.entries(operation.responses).filter(
          ([status, response]) => !isDeepStrictEqual(response, known[status]),
        );
        return [method, { ...operation, responses: Object.fromEntries(responses) }];
      });
    return [path, Object.fromEntries(entries)];
  });
  return { ...document, components: {}, paths: Object.fromEntries(paths) };
}

function ofThisApi(before: OpenApi, after: OpenApi): string[] {
  return Object.entries(before.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, old]) => {
      const young = after.paths[path]?.[method];
      if (!young) return [];
      const accepted = bodyMembers(young);
      const lost = bodyMembers(old).filter((name) => !accepted.includes(name));
      const isClosed = old.security?.length === 0 && young.security?.length !== 0;
      return [
        ...lost.map((name) => `${method} ${path}: the member ${name} of the body is no longer accepted`),
        ...(isClosed ? [`${method} ${path}: needs credentials, and needed none`] : []),
      ];
    }),
  );
}

function bodyMembers({ requestBody }: Operation): string[] {
  const names = (schema: Json, prefix: string): string[] =>
    Object.entries((schema['properties'] ?? {}) as Record<string, Json>).flatMap(([name, part]) => [
      `${prefix}${name}`,
      ...names(part, `${prefix}${name}.`),
    ]);
  return Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => names(schema, ''));
}

const texts = new Set(['title', 'summary', 'description', 'example', 'examples', 'x-extensible-enum']);

/** The document with every reference replaced by what it refers to, and without what only people read. */
function resolved(document: OpenApi): OpenApi {
  const target = (reference: string): unknown =>
    reference
      .slice('#/'.length)
      .split('/')
      .reduce<unknown>(
        (node, key) => (node as Json)[key.replaceAll('~1', '/').replaceAll('~0', '~')],
        document,
      );
  const visit = (node: unknown, areNames: boolean): unknown => {
    if (Array.isArray(node)) return node.map((item) => visit(item, false));
    if (typeof node !== 'object' || node === null) return node;
    const { $ref } = node as { $ref?: unknown };
    if (typeof $ref === 'string' && !areNames) return visit(target($ref), false);
    const entries = Object.entries(node)
      .filter(([key]) => areNames || !texts.has(key))
      .map(([key, value]) => [key, visit(value, !areNames && key === 'properties')]);
    return Object.fromEntries(entries);
  };
  return visit(document, false) as OpenApi;
}
