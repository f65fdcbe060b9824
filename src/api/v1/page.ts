import { type TSchema, Type } from 'typebox';
import { maxCursorLength } from '../pipeline/cursor.ts';
import { type Answer, json } from '../route.ts';

export const defaultLimit = 50;
const maxLimit = 200;
const exampleCursor = 'AAAAAfmC1Pp0Yt9dTnQ7wXb2vKzN5sJrG8hLqE3uVaM';

/** The query parameters that every list has. */
export const pageParameters = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxLimit,
      default: defaultLimit,
      description: 'Records on the page at most.',
      examples: [defaultLimit],
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxCursorLength,
      description: '`next_cursor` of the page before.',
      examples: [exampleCursor],
    }),
  ),
};

/** The envelope of a list. */
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

/** A page of what was found; `found` holds one entry more than the page where there is a next one. */
export function pageAnswer<T>(
  found: readonly T[],
  limit: number,
  show: (entry: T) => unknown,
  cursorAfter: (entry: T) => string,
): Answer {
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const hasMore = found.length > limit && last !== undefined;
  return json(200, {
    data: page.map(show),
    next_cursor: hasMore ? cursorAfter(last) : null,
    has_more: hasMore,
  });
}
