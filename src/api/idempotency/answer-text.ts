import { promisify } from 'node:util';
import { constants, deflate, inflate } from 'node:zlib';
import type { StoredAnswer } from './keyed-request.ts';

export interface PackedAnswer extends Omit<StoredAnswer, 'body'> {
  text: string | null;
  compressed: Buffer | null;
}

/** Shorter bodies, which most answers have, are not compressed. In UTF-16 code units. */
const leastLength = 4096;
/** More than any answer has: a manipulated row must not fill the memory. */
const mostBytes = 64 * 1024 * 1024;

const compress = promisify<Buffer, object, Buffer>(deflate);
const expand = promisify<Uint8Array, object, Buffer>(inflate);

/** Compresses a long body with zlib at its fastest level (RFC 1950), outside the event loop. */
export async function packAnswer({ body, ...answer }: StoredAnswer): Promise<PackedAnswer> {
  if (body.length < leastLength) return { ...answer, text: body, compressed: null };
  const plain = Buffer.from(body);
  const compressed = await compress(plain, { level: constants.Z_BEST_SPEED });
  if (compressed.length >= plain.length) return { ...answer, text: body, compressed: null };
  return { ...answer, text: null, compressed };
}

/** The body that was packed, byte for byte. Throws where the bytes are not what `packAnswer` made. */
export async function expandBody(compressed: Uint8Array): Promise<string> {
  return (await expand(compressed, { maxOutputLength: mostBytes })).toString();
}

export function storedBytes({ text, compressed }: Pick<PackedAnswer, 'text' | 'compressed'>): number {
  return compressed?.length ?? Buffer.byteLength(text ?? '');
}
