import { type CompactJson, compactField } from '../platform/base/json-text.ts';
import { type Fault, Problem } from '../platform/base/problem.ts';
import { splitText, type TextColumns } from '../platform/base/text.ts';
import type { OrgFit } from './org-fit.ts';
import { isSame, type ReadValue, readJsonValue } from './org-types.ts';
import type { FieldValues } from './records.ts';
import type { Resource } from './resource.ts';

/** How deep `details` may nest, itself counted as the first level. */
const maxDetailsDepth = 100;

/**
 * The JSON object at `path` of a request body as compact text, digit for digit as it came. `bodyText` has passed
 * JSON.parse and the body's schema. Throws `details_too_large`, and `invalid_request` where it nests too deep.
 */
export function readDetails(
  bodyText: string,
  path: readonly string[],
  resource: Pick<Resource, 'fields' | 'fit'>,
): string {
  const details = compactField(bodyText, path);
  if (details === undefined)
    throw new Error(`there is no ${path.join('.')} in a body that passed its schema`);
  requireStorable(details, `#/${path.join('/')}`, resource);
  return details.text;
}

/** Throws `details_too_large`, and `invalid_request` where they nest too deep. */
export function requireStorable(
  details: CompactJson,
  pointer: string,
  { fields, fit }: Pick<Resource, 'fields' | 'fit'>,
): void {
  const columns = fields['details']?.columns;
  if (details.depth > maxDetailsDepth) {
    const message = `nest ${details.depth} levels deep; at most ${maxDetailsDepth} are allowed`;
    throw new Problem('invalid_request', `The details ${message}.`, {
      errors: [{ pointer, message }],
    });
  }
  if (columns && splitText(details.text, columns) === undefined)
    throw detailsTooLarge(pointer, details.text.length, columns, fit);
}

export function detailsTooLarge(
  pointer: string,
  length: number,
  { size, count }: TextColumns,
  fit: OrgFit,
): Problem {
  const most =
    count === 1 || length > size * count
      ? `the CRM holds at most ${size * count}`
      : `the CRM stores them in parts of at most ${size}, and they have too much white space in a row to be cut there`;
  const message = `have ${length} characters without insignificant white space; ${most}`;
  return new Problem('details_too_large', `The details ${message}.`, {
    errors: [{ pointer, message }],
    ...fit.lookAgain('length of details'),
  });
}

/**
 * The values of a body that has passed its schema, as the records port takes them: UUIDs in lower case, JSON as the
 * text that was sent. Throws `details_too_large`, `invalid_request`.
 */
export function readFieldValues(resource: Resource, body: unknown, bodyText: string): FieldValues {
  const { fields } = resource;
  const values: Record<string, string | null> = {};
  const faults: Fault[] = [];
  for (const [name, value] of Object.entries(body as Record<string, unknown>)) {
    const field = fields[name];
    if (field === undefined) throw new Error(`the field ${name} passed the schema and is not declared`);
    if (field.kind === 'json') values[name] = readDetails(bodyText, [name], resource);
    else if (field.added !== undefined) {
      const read = readAdded(resource, name, compactField(bodyText, [name])?.text ?? 'null');
      if ('fault' in read) faults.push({ pointer: `#/${name}`, message: read.fault });
      else values[name] = read.value;
    } else values[name] = field.kind === 'uuid' ? (value as string).toLowerCase() : (value as string);
  }
  if (faults.length > 0) throw invalidValues(faults, resource.fit);
  return values;
}

/**
 * A value that a mapping's field is given, as JSON text. Of an unknown type it is kept as it is: nothing is written then. Throws
 * `crm_error` for a value of the type that the field had before the org was changed.
 */
function readAdded({ fields, fit }: Resource, name: string, json: string): ReadValue {
  const { added, required } = fields[name] ?? {};
  if (required && json === 'null') return { fault: 'must not be null' };
  if (added?.type === undefined) return { value: json };
  const read = readJsonValue(added.type, json);
  const misfit = fit.whyUnfit([name]);
  const wasFit = 'fault' in read && misfit && added.first && 'value' in readJsonValue(added.first, json);
  if (wasFit) throw fit.refusal(misfit);
  return read;
}

function invalidValues(faults: Fault[], fit: OrgFit): Problem {
  const [first] = faults.map((fault) =>
    'pointer' in fault ? `${fault.pointer} ${fault.message}` : fault.message,
  );
  const more = faults.length > 1 ? `, and ${faults.length - 1} more` : '';
  return new Problem('invalid_request', `The body isn't valid: ${first}${more}.`, {
    errors: faults,
    // By the first alone, so that requests can't make up ever new ones.
    ...fit.lookAgain(`value of ${faults[0] && 'pointer' in faults[0] ? faults[0].pointer : ''}`),
  });
}

export interface HandedOff {
  type: string;
  trip_id: string;
  member_id: string;
  name: string;
  source: string;
  details: string;
}

/**
 * The values that the mapping takes out of a hand-off: from the parts of its body that `from` names. What is not there is
 * not written. Throws `invalid_request` for what is of another type or too long.
 */
export function valuesFrom(resource: Resource, handedOff: HandedOff): FieldValues {
  const values: Record<string, string | null> = {};
  const faults: Fault[] = [];
  let body: string | undefined;
  for (const [name, field] of Object.entries(resource.fields)) {
    const from = field.added?.from;
    if (from === undefined) continue;
    body ??= bodyOf(handedOff);
    const json = compactField(body, from)?.text;
    if (json === undefined || json === 'null') continue;
    const read = readAdded(resource, name, json);
    if ('fault' in read) faults.push({ pointer: pointerTo(from), message: read.fault });
    else values[name] = read.value;
  }
  if (faults.length > 0) throw invalidValues(faults, resource.fit);
  return values;
}

export function namesFrom({ fields }: Pick<Resource, 'fields'>, body: unknown): string[] {
  const valueAt = (from: readonly string[]) =>
    from.reduce<unknown>(
      (value, part) =>
        typeof value === 'object' && value !== null && Object.hasOwn(value, part)
          ? (value as Record<string, unknown>)[part]
          : null,
      body,
    );
  return Object.entries(fields).flatMap(([name, { added }]) =>
    added?.from !== undefined && (valueAt(added.from) ?? null) !== null ? [name] : [],
  );
}

function bodyOf({ name, source, details, ...rest }: HandedOff): string {
  const [outer, inner] = [JSON.stringify(rest), JSON.stringify({ name, source })];
  return `${outer.slice(0, -1)},"result":${inner.slice(0, -1)},"details":${details}}}`;
}

/** A JSON Pointer as URI fragment. */
export function pointerTo(parts: readonly string[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
}

export function hasValues({ fields }: Resource, has: FieldValues, wanted: FieldValues): boolean {
  return Object.entries(wanted).every(([name, value]) => isSame(fields[name]?.kind, has[name], value));
}
