import type { TSchema } from 'typebox';
import { exampleOf } from '../../src/api/openapi/schemas.ts';

/** Texts that a database, a CRM or a person may stumble over. */
export const oddTexts: readonly string[] = [
  ...[
    '\0',
    'a\0b',
    '\ud800',
    'a\udc00b',
    '\u0007',
    '\u009b31m',
    '\u202eevil',
    '\uffff',
    ' ',
    '%00',
    "\\'",
    '"',
  ],
  ...['x'.repeat(300), '👨‍👩‍👧‍👦', '__proto__', '-1', '2147483648', '1970-01-01', '../..'],
];

/** Times that are none, or that not everything can hold. */
export const wrongTimes: readonly string[] = [
  ...['0000-01-01T00:00:00Z', '0000-12-31T23:59:59.999Z', '0001-01-01T00:00:00+00:01'],
  ...[
    '9999-12-31T23:59:59-00:01',
    '9999-12-31T23:59:59.999-23:59',
    '+010000-01-01T00:00:00Z',
    '-000001-01-01T00:00:00Z',
  ],
  ...['2026-02-30T00:00:00Z', '2026-06-30T23:59:60Z', '2026-01-01T24:00:00Z', '2026-01-01T00:00:00+24:00'],
  ...['2026-01-01T00:00:00', '2026-01-01 00:00:00Z', '2026-01-01T00:00:00Z\0', '2026-13-01T00:00:00Z'],
];

/** Times at the ends of what is taken, in every form that RFC 3339 has. */
export const rightTimes: readonly string[] = [
  ...[
    '0001-01-01T00:00:00Z',
    '0000-12-31T23:59:59-00:01',
    '1969-12-31T23:59:59Z',
    '9999-12-31T23:59:59Z',
    '9999-12-31T23:59:59.999999999Z',
  ],
  ...[
    '2026-01-01T00:00:00+23:59',
    '2026-01-01T00:00:00-00:00',
    '2026-01-01t00:00:00.5z',
    '2028-02-29T00:00:00Z',
  ],
];

const oddValues: readonly unknown[] = [null, true, -1, 0.5, 1e308, 2 ** 53, [null], { a: 1 }];

interface Schema {
  type?: string;
  format?: string;
  pattern?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
}

/** Whether the schema is that of a time, perhaps of one that may be null. */
export function isTime({ format, anyOf = [] }: Schema): boolean {
  return format === 'date-time' || anyOf.some(isTime);
}

/** A value of a request with something odd in one part; `pointer` is the JSON Pointer to it. */
export interface Odd {
  pointer: string;
  schema: Schema;
  put: unknown;
  value: unknown;
}

/** The example of the schema with each odd value in each of its parts. */
export function* oddOnes(schema: TSchema): Generator<Odd> {
  for (const { pointer, schema: part, put } of partsOf(schema, exampleOf(schema), '')) {
    const values = [...oddTexts, ...oddValues, ...(isTime(part) ? [...wrongTimes, ...rightTimes] : [])];
    for (const value of values) yield { pointer, schema: part, put: value, value: put(value) };
  }
}

interface Part {
  pointer: string;
  schema: Schema;
  put(value: unknown): unknown;
}

function* partsOf(schema: Schema, example: unknown, pointer: string): Generator<Part> {
  yield { pointer, schema, put: (value) => value };
  yield* fieldsOf(schema, (example ?? {}) as Record<string, unknown>, pointer);
  yield* itemsOf(schema, example, pointer);
}

function* fieldsOf({ type, properties = {} }: Schema, whole: Record<string, unknown>, pointer: string) {
  for (const [name, part] of Object.entries(properties)) {
    for (const inner of partsOf(part, whole[name] ?? exampleOf(part), `${pointer}/${name}`)) {
      yield { ...inner, put: (value: unknown) => ({ ...whole, [name]: inner.put(value) }) };
    }
  }
  // Any object: what stands in it reaches the database and the CRM too.
  if (type === 'object' && Object.keys(properties).length === 0) {
    yield { pointer: `${pointer}/any`, schema: {}, put: (value: unknown) => ({ any: value }) };
  }
}

function* itemsOf({ items }: Schema, example: unknown, pointer: string) {
  if (items === undefined) return;
  const first: unknown = Array.isArray(example) ? example[0] : undefined;
  for (const inner of partsOf(items, first ?? exampleOf(items), `${pointer}/0`)) {
    yield { ...inner, put: (value: unknown) => [inner.put(value)] };
  }
}
