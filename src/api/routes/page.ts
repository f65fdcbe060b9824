import { type TSchema, Type } from 'typebox';
import type { Visible } from '../../platform/base/call.ts';
import { maxCursorLength } from '../pipeline/cursor.ts';
import type { RouteAnswer } from '../route.ts';

export const defaultLimit = 50;
const maxLimit = 200;
/** Bytes of the records of a page at most, in UTF-8; a first record may have more. */
export const maxPageBytes = 4 * 1024 * 1024;
const exampleCursor = 'AAAAAfmC1Pp0Yt9dTnQ7wXb2vKzN5sJrG8hLqE3uVaM';

export const pageParameters = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxLimit,
      default: defaultLimit,
      description:
        'Maximum number of records on the page. A page also ends at 4 MiB (4,194,304 bytes) of records, with at least one; ' +
        '`has_more` says whether there are more.',
      examples: [defaultLimit],
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxCursorLength,
      description: "The previous page's `next_cursor`.",
      examples: [exampleCursor],
    }),
  ),
};

export function listName(filters: readonly unknown[], visible: Visible): string {
  return JSON.stringify(visible === 'all' ? filters : [...filters, visible]);
}

export function pageSchema(item: TSchema, title: string, description: string) {
  return Type.Object(
    {
      data: Type.Array(item, { maxItems: maxLimit }),
      next_cursor: Type.Union([Type.String({ maxLength: maxCursorLength }), Type.Null()], {
        description: 'Cursor of the next page; null on the last.',
        examples: [exampleCursor],
      }),
      has_more: Type.Boolean({ description: 'Whether there is a next page.' }),
    },
    { additionalProperties: false, title, description },
  );
}

export function shownAs(schema: TSchema): (value: unknown) => unknown {
  const { properties, items } = schema as { properties?: Record<string, TSchema>; items?: TSchema };
  if (items !== undefined) {
    const show = shownAs(items);
    // A schema with `items` may allow other types, too.
    return (value) => (Array.isArray(value) ? value.map(show) : value);
  }
  if (properties === undefined) return (value) => value;
  const fields = Object.entries(properties).map(([name, field]) => [name, shownAs(field)] as const);
  return (value) =>
    Object.fromEntries(fields.map(([name, show]) => [name, show((value as Record<string, unknown>)[name])]));
}

export function pageAnswer<T>(
  found: readonly T[],
  limit: number,
  show: (entry: T) => unknown,
  cursorAfter: (entry: T) => string,
): RouteAnswer {
  const texts: string[] = [];
  let bytes = 0;
  for (const entry of found.slice(0, limit)) {
    const text = JSON.stringify(show(entry));
    bytes += Buffer.byteLength(text);
    if (texts.length > 0 && bytes > maxPageBytes) break;
    texts.push(text);
  }
  const last = found[texts.length - 1];
  const hasMore = found.length > texts.length && last !== undefined;
  const next = JSON.stringify(hasMore ? cursorAfter(last) : null);
  return { status: 200, body: `{"data":[${texts.join(',')}],"next_cursor":${next},"has_more":${hasMore}}` };
}
