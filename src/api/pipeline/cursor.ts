import { createCipheriv, createDecipheriv } from 'node:crypto';
import { randomBytes } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { KeySet } from '../../platform/secrets/key-set.ts';

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
const versionBytes = 4;

export const maxCursorLength = 400;

export interface CursorCodec {
  encode(position: unknown, list: string): string;
  /** Throws `invalid_cursor`. */
  decode(cursor: string, list: string): unknown;
}

/**
 * Cursors are positions under AES-256-GCM; the list and its filters are authenticated with them, so that a cursor is
 * good for that list only. `keys` gives the keys as they are now: those of a version that is gone open nothing.
 */
export function createCursorCodec(keys: () => KeySet): CursorCodec {
  return {
    encode(position, list) {
      const { version, key } = keys().current;
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(list));
      const head = Buffer.alloc(versionBytes);
      head.writeUInt32BE(version);
      const sealed = [cipher.update(JSON.stringify(position), 'utf8'), cipher.final()];
      return Buffer.concat([head, nonce, ...sealed, cipher.getAuthTag()]).toString('base64url');
    },
    decode(cursor, list) {
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

function invalidCursor(): Problem {
  const message = 'does not belong to this list with these filters; use next_cursor from the previous page';
  return new Problem('invalid_cursor', `The cursor ${message}.`, {
    errors: [{ parameter: 'cursor', message }],
  });
}
