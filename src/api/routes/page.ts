import { createCipheriv, createDecipheriv } from 'node:crypto';
import { type TSchema, Type } from 'typebox';
import { requireFields, requireOneOf } from '../../identity/consumers/permissions.ts';
import type { Caller } from '../../identity/consumers/scopes.ts';
import type { Visible } from '../../platform/base/call.ts';
import { randomBytes } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { KeySet } from '../../platform/secrets/key-set.ts';
import type { RouteAnswer } from '../route.ts';

export const defaultLimit = 50;
const maxLimit = 200;
/** Bytes of the records of a page at most, in UTF-8; a first record may have more. */
export const maxPageBytes = 4 * 1024 * 1024;
const maxCursorLength = 400;
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
      // More than a request's head may have, so that a long one is an invalid cursor too.
      maxLength: 65_536,
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

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
const versionBytes = 4;

/**
 * Cursors are positions under AES-256-GCM; the list and its filters are authenticated with them, so that a cursor is
 * good for that list only. `keys` gives the keys as they are now: those of a version that is gone open nothing.
 */
export function createCursorCodec(keys: () => KeySet) {
  return {
    encode(position: unknown, list: string): string {
      const { version, key } = keys().current;
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(list));
      const head = Buffer.alloc(versionBytes);
      head.writeUInt32BE(version);
      const sealed = [cipher.update(JSON.stringify(position), 'utf8'), cipher.final()];
      return Buffer.concat([head, nonce, ...sealed, cipher.getAuthTag()]).toString('base64url');
    },
    /** Throws `invalid_cursor`. */
    decode(cursor: string, list: string): unknown {
      try {
        const bytes = Buffer.from(cursor, 'base64url');
        const key = keys().get(bytes.readUInt32BE(0));
        if (!key || bytes.toString('base64url') !== cursor) throw invalidCursor();
        const nonceEnd = versionBytes + nonceBytes;
        const decipher = createDecipheriv(algorithm, key, bytes.subarray(versionBytes, nonceEnd), {
          authTagLength: tagBytes,
        });
        decipher.setAAD(Buffer.from(list)).setAuthTag(bytes.subarray(-tagBytes));
        const opened = [decipher.update(bytes.subarray(nonceEnd, -tagBytes)), decipher.final()];
        return JSON.parse(Buffer.concat(opened).toString('utf8')) as unknown;
      } catch {
        throw invalidCursor();
      }
    },
  };
}

export type CursorCodec = ReturnType<typeof createCursorCodec>;

function invalidCursor(): Problem {
  const message = "doesn't belong to this list with these filters; use next_cursor from the previous page";
  return new Problem('invalid_cursor', `The cursor ${message}.`, {
    errors: [{ parameter: 'cursor', message }],
  });
}

const description = 'Adds the member to each record: id, names and e-mail address. Needs members:read.';

export const includeParameter = {
  include: Type.Optional(Type.Enum(['member'], { description, examples: ['member'] })),
};

/** Throws `permission_denied` for a caller that may not see the members of these records. */
export function requireMembers(consumer: Caller | undefined, collections: readonly string[]): void {
  requireOneOf(consumer as Caller, [{ resource: 'members', action: 'read' }]);
  for (const collection of collections)
    requireFields(consumer as Caller, { resource: collection, action: 'read' } as never, () => ['member_id']);
}
