import { closeSync, openSync, readSync } from 'node:fs';
import type { TSchema } from 'typebox';
import { Settings } from 'typebox/system';
import { Value } from 'typebox/value';
import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
  visit,
  type YAMLMap,
} from 'yaml';
import { isObject } from '../platform/base/json-text.ts';
import {
  type Mapping,
  mappingSchema,
  pointerParts,
  type ResourceMapping,
  type Resources,
  resourcesOf,
} from './mapping.ts';
import { includedPart } from './members.ts';
import { type Field, lookupColumns, type OwnerRule, type Resource } from './resource.ts';

export const maxMappingBytes = 256 * 1024;
/** How often a file may refer to anchors, all that stands in each counted. */
const mostAliases = 100;
const mostFaults = 50;

interface MappingFault {
  line: number;
  column: number;
  message: string;
}

type ParsedMapping = { mapping: Mapping } | { faults: MappingFault[] };

type Path = readonly (string | number)[];
type Found = { path: Path; message: string };

const ownWords: Partial<Record<ErrorCode, string>> = {
  NON_STRING_KEY: 'a name must be text, not an object or a list',
  RESOURCE_EXHAUSTION: 'this is nested too deeply',
};

/** Reads and checks a mapping file: YAML 1.2, the schema, names, and that no two things are in one field of the CRM. */
export function parseMapping(text: string): ParsedMapping {
  if (text.length > maxMappingBytes)
    return { faults: [{ line: 1, column: 1, message: `the file has more than ${maxMappingBytes} bytes` }] };
  const lines = new LineCounter();
  const document = parseDocument(text, {
    version: '1.2',
    lineCounter: lines,
    prettyErrors: false,
    // Sets and ordered maps would become objects without properties.
    resolveKnownTags: false,
    // Each further level of an object as a name would double the work.
    stringKeys: true,
    // Compares each name with all before it; `brokenNodes` finds those that stand twice.
    uniqueKeys: false,
  });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const syntax = [
    ...document.errors.map(({ pos, code, message }) => ({
      offset: pos[0],
      message: ownWords[code] ?? message,
    })),
    ...brokenNodes(document),
  ];
  if (syntax.length > 0)
    return { faults: syntax.slice(0, mostFaults).map(({ offset, message }) => ({ ...at(offset), message })) };
  let content: unknown;
  try {
    content = document.toJS({ maxAliasCount: mostAliases });
  } catch (error) {
    return { faults: [{ line: 1, column: 1, message: (error as Error).message }] };
  }
  const found = faultsOf(content);
  if (found.length === 0) return { mapping: content as Mapping };
  const offsetOf = offsetsIn(document);
  const faults = found.map(({ path, message }) => ({
    ...at(offsetOf(path)),
    message: `${path.length === 0 ? 'the file' : path.join('.')} ${message}`,
  }));
  return { faults: faults.sort((a, b) => a.line - b.line || a.column - b.column).slice(0, mostFaults) };
}

/** Aliases, which the parser finds only when they are used, without their place; and names that stand twice in one map. */
function brokenNodes(document: Document): { offset: number; message: string }[] {
  const found: { offset: number; message: string }[] = [];
  if (document.errors.length > 0) return found;
  const anchors = new Set<string>();
  let aliases = 0;
  visit(document, {
    Node(_key, node) {
      if (isMap(node)) found.push(...repeatedNames(node));
      if (!isAlias(node)) {
        if ('anchor' in node && node.anchor !== undefined) anchors.add(node.anchor);
        return undefined;
      }
      const offset = node.range?.[0] ?? 0;
      aliases += 1;
      if (!anchors.has(node.source))
        found.push({ offset, message: `there is no anchor &${node.source} before this` });
      if (aliases <= mostAliases) return undefined;
      found.push({ offset, message: `is one of more than ${mostAliases} references to anchors` });
      return visit.BREAK;
    },
  });
  return found;
}

function repeatedNames({ items }: YAMLMap): { offset: number; message: string }[] {
  const known = new Set<string>();
  return items.flatMap(({ key }) => {
    const name = nameOf(key);
    if (!known.has(name)) {
      known.add(name);
      return [];
    }
    return [{ offset: startOf(key) ?? 0, message: `${name} is defined twice` }];
  });
}

function offsetsIn({ contents }: Document): (path: Path) => number {
  // Names are looked up once in each map: many faults can be in one that has many names.
  const maps = new Map<YAMLMap, ReadonlyMap<string, Pair>>();
  const pairIn = (map: YAMLMap, name: string) => {
    let pairs = maps.get(map);
    if (pairs === undefined) {
      pairs = new Map(map.items.map((pair) => [nameOf(pair.key), pair]));
      maps.set(map, pairs);
    }
    return pairs.get(name);
  };
  return (path) => {
    let node: unknown = contents;
    let offset = startOf(node) ?? 0;
    for (const part of path) {
      const pair = isMap(node) ? pairIn(node, String(part)) : undefined;
      node = isSeq(node) ? node.items[Number(part)] : pair?.value;
      offset = startOf(pair?.key ?? node) ?? offset;
      if (!isNode(node)) break;
    }
    return offset;
  };
}

function nameOf(key: unknown): string {
  return String(isScalar(key) ? key.value : key);
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}

function faultsOf(content: unknown): Found[] {
  const ofSchema = schemaFaults(content);
  const wrong = new Set(ofSchema.map(({ path }) => textOf(path)));
  // Names are checked in what has the right shape.
  return [...ofSchema, ...nameFaults(content).filter(({ path }) => !isWithin([...path, ''], wrong))];
}

function isWithin(path: Path, places: ReadonlySet<string>): boolean {
  return path.some((_, length) => places.has(textOf(path.slice(0, length))));
}

function textOf(path: Path): string {
  return JSON.stringify(path.map(String));
}

function schemaFaults(content: unknown): Found[] {
  const found = new Map<string, Found>();
  for (const error of allErrors(content)) {
    const { keyword, instancePath, schemaPath, params } = error;
    if (keyword === 'additionalProperties') continue;
    const path = pointerParts(instancePath);
    if (keyword === 'required') {
      for (const name of params.requiredProperties) add({ path: [...path, name], message: 'is missing' });
    } else if (keyword === 'boolean') add({ path, message: unknownName(path) });
    else add({ path, message: `must be ${expectedAt(schemaPath, path)}` });
  }
  // For a union, faults of its alternatives are reported as one fault of the value.
  const places = new Set(found.keys());
  return [...found.values()].filter(({ path }) => !isWithin(path, places));

  function add(fault: Found): void {
    const key = textOf(fault.path);
    if (!found.has(key)) found.set(key, fault);
  }
}

/** The library ends its list at eight. */
function allErrors(content: unknown) {
  const { maxErrors } = Settings.Get();
  Settings.Set({ maxErrors: 10 * mostFaults });
  try {
    return [...Value.Errors(mappingSchema, content)];
  } finally {
    Settings.Set({ maxErrors });
  }
}

function expectedAt(schemaPath: string, path: Path): string {
  let schema: Record<string, unknown> | undefined = { ...mappingSchema };
  let expected = 'of another form';
  for (const part of pointerParts(schemaPath.replace(/^#/, ''))) {
    schema = schema?.[part] as Record<string, unknown> | undefined;
    const { description } = (schema ?? {}) as TSchema & { description?: string };
    if (description !== undefined) expected = description;
    if (part === 'anyOf') break;
  }
  return path.length === 0 ? 'a mapping: {version: 1, resources}' : expected;
}

function unknownName(path: Path): string {
  const section = path.at(-2);
  if (section === 'add') return 'must be a name in snake_case of at most 40 characters';
  if (section === 'set') return 'must be the API name of a field, such as Channel__c';
  if (section === 'fields') return "isn't a field that can be mapped";
  return "isn't known";
}

const listParameters = ['limit', 'cursor', 'updated_since', 'q', 'include'];
const handoffParts = ['type', 'trip_id', 'member_id', 'result'];
const handoffObjects = ['/result', '/result/details'];

function nameFaults(content: unknown): Found[] {
  const { resources = {} } = (isObject(content) ? content : {}) as { resources?: unknown };
  if (!isObject(resources)) return [];
  const defaults = resourcesOf();
  const found: Found[] = [];
  const objects = new Map<string, string>();
  for (const name of ['member', 'quote', 'booking'] as const) {
    const given = isObject(resources[name]) ? (resources[name] as ResourceMapping) : {};
    const path = ['resources', name];
    const crmObject = typeof given.object === 'string' ? given.object : defaults[name].crmObject;
    const other = objects.get(crmObject.toLowerCase());
    objects.set(crmObject.toLowerCase(), name);
    if (other !== undefined)
      found.push({ path: [...path, 'object'], message: `must be another object than that of ${other}` });
    found.push(...sharedColumns(path, given, defaults[name]), ...addFaults(path, given, defaults[name]));
  }
  return found;
}

const ownColumns = ['Id', 'IsDeleted', 'SystemModstamp'];

interface UsedColumn {
  at: Path;
  column: string;
}

function sharedColumns(path: Path, given: ResourceMapping, resource: Resource): Found[] {
  const { fields, set, add } = parts(given);
  const used: UsedColumn[] = [
    ...ownColumns.map((column) => ({ at: ['fields', column], column })),
    ...Object.entries(resource.fields).flatMap(([name, field]) => columnsOf(name, field, fields)),
    ...(given.owner === undefined ? [] : [{ at: ['owner'], column: 'OwnerId' }]),
    ...Object.keys(set).map((column) => ({ at: ['set', column], column })),
    ...Object.entries(add).flatMap(([name, one]) =>
      isObject(one) && typeof one['field'] === 'string'
        ? [{ at: ['add', name, 'field'], column: one['field'] }]
        : [],
    ),
  ];
  // Those that the file does not name come first: the fault is shown where it can be corrected.
  const isNamed = ({ at: [section, name] }: UsedColumn) => section !== 'fields' || String(name) in fields;
  const first = new Map<string, Path>();
  return [...used.filter((one) => !isNamed(one)), ...used.filter(isNamed)].flatMap(({ at, column }) => {
    const earlier = first.get(column.toLowerCase());
    first.set(column.toLowerCase(), earlier ?? at);
    if (earlier === undefined) return [];
    return [{ path: [...path, ...at], message: `is in the same field ${column} as ${earlier.join('.')}` }];
  });
}

function columnsOf(name: string, { crm }: Field, fields: Record<string, unknown>): UsedColumn[] {
  const defaults = [crm.path.split('.')[0] ?? '', ...(crm.continuations ?? [])];
  const own = name in fields ? fields[name] : defaults;
  const isLookup = crm.lookupColumn !== undefined;
  return [own].flat().flatMap((column, index) => {
    if (typeof column !== 'string') return [];
    const at = ['fields', name, ...(Array.isArray(own) && name in fields ? [index] : [])];
    return [{ at, column: isLookup ? lookupColumns(column, '').lookupColumn : column }];
  });
}

/** Names that fields under `add` can't have. */
export function takenNames({ fields }: Resource): string[] {
  const groups = Object.values(fields).flatMap(({ within }) => within?.name ?? []);
  // Every object has a constructor: where the org hides the field, it would be taken for its value.
  return [...Object.keys(fields), ...groups, includedPart, ...listParameters, 'constructor'];
}

function addFaults(path: Path, given: ResourceMapping, resource: Resource): Found[] {
  const taken = takenNames(resource);
  return Object.entries(parts(given).add).flatMap(([name, one]) => {
    const at = [...path, 'add', name];
    const found: Found[] = [];
    if (taken.includes(name)) found.push({ path: at, message: 'is already a name in the API' });
    if (!isObject(one)) return found;
    if (one['access'] === 'read' && one['required'] === true)
      found.push({ path: [...at, 'required'], message: 'needs access: write' });
    const { from } = one;
    if (from === undefined) return found;
    if (one['access'] === 'read') found.push({ path: [...at, 'from'], message: 'needs access: write' });
    const fault = typeof from === 'string' ? pointerFault(from) : undefined;
    if (fault !== undefined) found.push({ path: [...at, 'from'], message: fault });
    return found;
  });
}

function pointerFault(from: string): string | undefined {
  if (!handoffParts.includes(from.split('/')[1] ?? ''))
    return `must begin with one of /${handoffParts.join(', /')}`;
  return handoffObjects.includes(from) ? 'leads to an object: name a value in it' : undefined;
}

function parts({ fields, set, add }: ResourceMapping) {
  const sure = (part: unknown) => (isObject(part) ? part : {});
  return { fields: sure(fields), set: sure(set), add: sure(add) };
}

export class MappingError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.faults = faults;
  }
}

/** Without a file: the declarations of the package and `ownerMatch`. Throws `MappingError`. */
export function readResources(file: string | undefined, ownerMatch?: OwnerRule['match']): Resources {
  if (file === undefined) return resourcesOf(undefined, ownerMatch);
  const parsed = parseMapping(readMapping(file));
  if ('mapping' in parsed) return resourcesOf(parsed.mapping);
  throw new MappingError(
    parsed.faults.map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`),
  );
}

function readMapping(file: string): string {
  try {
    const text = readStart(file, maxMappingBytes + 1);
    if (text.length <= maxMappingBytes) return text.toString();
  } catch (error) {
    throw new MappingError([
      `crm.mappingFile (CRM_MAPPING_FILE): can't be read: ${(error as Error).message}`,
    ]);
  }
  throw new MappingError([`crm.mappingFile (CRM_MAPPING_FILE): has more than ${maxMappingBytes} bytes`]);
}

/** At most so many bytes: it may be any file, a device that never ends too. */
function readStart(file: string, most: number): Buffer {
  const opened = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(most);
    let length = 0;
    for (let read = -1; read !== 0 && length < most; length += read)
      read = readSync(opened, bytes, length, most - length, null);
    return bytes.subarray(0, length);
  } finally {
    closeSync(opened);
  }
}
