import { isDeepStrictEqual } from 'node:util';

export interface OpenApi {
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
  security?: SecurityRequirement[];
  components: { securitySchemes: Record<string, unknown> };
}

export type SecurityRequirement = Record<string, string[]>;

export interface Operation {
  security?: SecurityRequirement[];
  /** What the caller may need, one of them at least; set by this service. */
  'x-permissions'?: string[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Media };
  responses: Record<string, { headers?: Record<string, Header>; content?: Media }>;
}

type Media = Record<string, { schema: Schema }>;
export type Parameter = { name: string; in: string; required?: boolean; schema: Schema };
type Header = { required?: boolean; schema: Schema };

/** JSON Schema of the dialect 2020-12, as far as the document uses it. */
export interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  enum?: unknown[];
  'x-extensible-enum'?: unknown[];
  additionalProperties?: boolean | Schema;
  [keyword: string]: unknown;
}

/**
 * What would break a consumer of the older document, a line a finding, by the rules of docs/partners/going-live.md: all that was
 * accepted stays accepted, and all that was answered is answered. Keywords that it does not know may not change at all.
 */
export function breakingChanges(before: OpenApi, after: OpenApi): string[] {
  const [old, young] = [resolved(before), resolved(after)];
  return Object.entries(old.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, operation]) => {
      const now = young.paths[path]?.[method];
      const findings = now === undefined ? ['is removed'] : compareOperations(operation, now, old, young);
      return findings.map((finding) => `${method} ${path}: ${finding}`);
    }),
  );
}

function compareOperations(old: Operation, young: Operation, before: OpenApi, after: OpenApi): string[] {
  return [
    ...compareSecurity(old.security ?? before.security ?? [], young.security ?? after.security ?? [], [
      before.components.securitySchemes,
      after.components.securitySchemes,
    ]),
    ...(young['x-permissions'] ? lost(old['x-permissions'], young['x-permissions']) : []).map(
      (permission) => `the permission ${permission} no longer suffices`,
    ),
    ...compareParameters(old.parameters ?? [], young.parameters ?? []),
    ...compareBodies(old.requestBody, young.requestBody),
    ...compareResponses(old.responses, young.responses),
  ];
}

/** Each way in that there was must still be one, with nothing more asked for. */
function compareSecurity(
  old: SecurityRequirement[],
  young: SecurityRequirement[],
  [oldSchemes, youngSchemes]: [Record<string, unknown>, Record<string, unknown>],
): string[] {
  // No requirement at all is one that is always met.
  const ways = (all: SecurityRequirement[]) => (all.length === 0 ? [{}] : all);
  const isSame = (name: string) => isDeepStrictEqual(oldSchemes[name], youngSchemes[name]);
  const findings = ways(old).map((way) => {
    const suffices = ways(young).some((now) =>
      Object.keys(now).every((name) => Object.hasOwn(way, name) && isSame(name)),
    );
    return suffices ? [] : [`the credentials (${Object.keys(way).join(', ') || 'none'}) no longer suffice`];
  });
  return findings.flat();
}

function compareParameters(old: Parameter[], young: Parameter[]): string[] {
  const keyOf = ({ in: where, name }: Parameter) =>
    `${where} parameter ${where === 'header' ? name.toLowerCase() : name}`;
  const known = new Map(old.map((parameter) => [keyOf(parameter), parameter]));
  const now = new Map(young.map((parameter) => [keyOf(parameter), parameter]));
  const changes = [...known].flatMap(([key, before]) => {
    const after = now.get(key);
    if (after === undefined) return [`${key} is removed`];
    return accepts(before.schema, after.schema, key);
  });
  const needed = [...now]
    .filter(([key, { required }]) => required === true && known.get(key)?.required !== true)
    .map(([key]) => `${key} is needed`);
  return [...changes, ...needed];
}

function compareBodies(old: Operation['requestBody'], young: Operation['requestBody']): string[] {
  if (old === undefined) return young?.required === true ? ['a body is needed'] : [];
  if (young === undefined) return ['a body is no longer taken'];
  const findings = young.required === true && old.required !== true ? ['a body is needed'] : [];
  return [...findings, ...compareMedia(old.content, young.content, 'body', accepts)];
}

function compareResponses(old: Operation['responses'], young: Operation['responses']): string[] {
  return Object.entries(old).flatMap(([status, before]) => {
    const after = young[status];
    if (after === undefined) return [`the answer ${status} is removed`];
    const headers = Object.entries(before.headers ?? {}).flatMap(([name, header]) =>
      compareHeaders(header, after.headers?.[name], `header ${name} of ${status}`),
    );
    return [
      ...headers,
      ...compareMedia(before.content ?? {}, after.content ?? {}, `answer ${status}`, answers),
    ];
  });
}

function compareHeaders(old: Header, young: Header | undefined, where: string): string[] {
  if (young === undefined) return [`${where} is removed`];
  const findings = old.required === true && young.required !== true ? [`${where} may be absent`] : [];
  return [...findings, ...answers(old.schema, young.schema, where)];
}

function compareMedia(old: Media, young: Media, where: string, compare: typeof accepts): string[] {
  return Object.entries(old).flatMap(([type, { schema }]) => {
    const after = young[type];
    return after === undefined ? [`${where} is no longer ${type}`] : compare(schema, after.schema, where);
  });
}

/** Bounds, and how the younger one must stand to the older one for all to be accepted that was. */
const bounds: Record<string, (old: number, young: number) => boolean> = {
  maximum: (old, young) => young >= old,
  exclusiveMaximum: (old, young) => young >= old,
  maxLength: (old, young) => young >= old,
  maxItems: (old, young) => young >= old,
  maxProperties: (old, young) => young >= old,
  minimum: (old, young) => young <= old,
  exclusiveMinimum: (old, young) => young <= old,
  minLength: (old, young) => young <= old,
  minItems: (old, young) => young <= old,
  minProperties: (old, young) => young <= old,
};

/** Looked at one by one. */
const structure = new Set([
  ...['type', 'properties', 'required', 'items', 'anyOf', 'enum'],
  ...['x-extensible-enum', 'additionalProperties'],
]);

/** What the older schema let callers send and the younger one does not. */
function accepts(old: Schema, young: Schema, where: string): string[] {
  if (old.anyOf || young.anyOf)
    return compareAlternatives(alternatives(old), alternatives(young), where, accepts);
  return [
    ...lost(typesOf(old), typesOf(young)).map((type) => `${where} may no longer be ${type}`),
    ...(young.enum ? lost(old.enum ?? ['any other value'], young.enum) : []).map(
      (value) => `${where} may no longer be ${String(value)}`,
    ),
    ...keywords(young)
      .filter((keyword) => !isSame(keyword, old, young))
      .filter((keyword) => !isWider(bounds[keyword], old[keyword], young[keyword]))
      .map((keyword) => `${where} has another ${keyword}`),
    ...lost(young.required, old.required).map((name) => `${where}.${name} is needed`),
    ...compareMembers(old, young, where, accepts),
    ...(isClosed(young) && !isClosed(old) ? [`${where} may have no other members`] : []),
  ];
}

/** What the older schema promised of an answer and the younger one does not. */
function answers(old: Schema, young: Schema, where: string): string[] {
  if (old.anyOf || young.anyOf) {
    const swapped = (one: Schema, other: Schema, at: string) => answers(other, one, at);
    return compareAlternatives(alternatives(young), alternatives(old), where, swapped);
  }
  return [
    ...lost(typesOf(young), typesOf(old)).map((type) => `${where} may be ${type}`),
    ...(old.enum ? lost(young.enum ?? ['any other value'], old.enum) : []).map(
      (value) => `${where} may be ${String(value)}`,
    ),
    ...lost(old['x-extensible-enum'], young['x-extensible-enum']).map(
      (value) => `${where} is never ${String(value)}`,
    ),
    // Bounds may get wider, and what is narrower breaks nobody.
    ...keywords(old)
      .filter((keyword) => bounds[keyword] === undefined && !isSame(keyword, old, young))
      .map((keyword) => `${where} has another ${keyword}`),
    ...lost(old.required, young.required).map((name) => `${where}.${name} may be absent`),
    ...compareMembers(old, young, where, answers),
  ];
}

function compareMembers(old: Schema, young: Schema, where: string, compare: typeof accepts): string[] {
  const members = Object.entries(old.properties ?? {}).flatMap(([name, schema]) => {
    const after = young.properties?.[name];
    return after === undefined ? [`${where}.${name} is removed`] : compare(schema, after, `${where}.${name}`);
  });
  const parts = { '.*': [othersOf(old), othersOf(young)], '[]': [old.items, young.items] };
  const findings = Object.entries(parts).map(([part, [before, after]]) =>
    before || after ? compare(before ?? {}, after ?? {}, `${where}${part}`) : [],
  );
  return [...members, ...findings.flat()];
}

/** What members that are not named must fit, where that is said. */
function othersOf({ additionalProperties }: Schema): Schema | undefined {
  return typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

/** Each of the first must fit one of the second. */
function compareAlternatives(
  first: Schema[],
  second: Schema[],
  where: string,
  compare: typeof accepts,
): string[] {
  const unfit = first.filter((one) => second.every((other) => compare(one, other, where).length > 0));
  return unfit.map((one) => `${where} has no alternative for ${JSON.stringify(one).slice(0, 100)}`);
}

function alternatives(schema: Schema): Schema[] {
  return schema.anyOf ?? [schema];
}

function isWider(bound: (typeof bounds)[string] | undefined, old: unknown, young: unknown): boolean {
  return bound !== undefined && typeof old === 'number' && typeof young === 'number' && bound(old, young);
}

/** Keywords that constrain a value by themselves. */
function keywords(schema: Schema): string[] {
  return Object.keys(schema).filter((keyword) => !structure.has(keyword));
}

/** Whether both say the same; formats of ours that leave out characters that no reader can use count as none. */
function isSame(keyword: string, old: Schema, young: Schema): boolean {
  const valueOf = (schema: Schema) =>
    keyword === 'format' && ['text', 'visible'].includes(String(schema[keyword]))
      ? undefined
      : schema[keyword];
  return isDeepStrictEqual(valueOf(old), valueOf(young));
}

const anyType = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string'];

function typesOf({ type }: Schema): string[] {
  const types = type === undefined ? anyType : [type].flat();
  return types.includes('number') && !types.includes('integer') ? [...types, 'integer'] : types;
}

function isClosed({ additionalProperties }: Schema): boolean {
  return additionalProperties === false;
}

/** What is in the first and not in the second; nothing where the first says nothing. */
function lost<T>(old: readonly T[] | undefined, young: readonly T[] | undefined): T[] {
  return (old ?? []).filter((value) => !(young ?? []).includes(value));
}

const texts = new Set(['title', 'summary', 'description', 'example', 'examples', 'deprecated']);

/** The document with every reference replaced by what it refers to, and without what only people read. */
export function resolved(document: OpenApi): OpenApi {
  const target = (reference: string): unknown =>
    reference
      .slice('#/'.length)
      .split('/')
      .reduce<unknown>(
        (node, key) => (node as Record<string, unknown>)[key.replaceAll('~1', '/').replaceAll('~0', '~')],
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
  const { info, paths, security, components } = document;
  const { securitySchemes } = components;
  return visit(
    { info, paths, ...(security && { security }), components: { securitySchemes } },
    false,
  ) as OpenApi;
}
