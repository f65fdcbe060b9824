import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { constants, createGzip, gzip, gzipSync } from 'node:zlib';

/** One HTTP request, its body read and unpacked. */
export interface HttpCall {
  method: string;
  pathname: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  /** A text, or its parts, made as they are sent. */
  body?: string | Iterable<string>;
}

const COMPRESS_ABOVE = 1024;

/** Handing less than this to another thread takes longer than packing it. */
const ASIDE_ABOVE = 64 * 1024;

const gzipAsync = promisify(gzip);

/** The body as it came; undefined where it has more than `limit` bytes. */
export async function readRaw(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export function jsonAnswer(status: number, body: unknown, headers: Record<string, string> = {}): HttpAnswer {
  const type = { 'Content-Type': 'application/json;charset=UTF-8' };
  return { status, headers: { ...type, ...headers }, body: JSON.stringify(body) };
}

const PACKING = { 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' };
const PACKING_OPTIONS = { level: constants.Z_BEST_SPEED };

function takesGzip(request: IncomingMessage): boolean {
  return /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
}

async function pack(request: IncomingMessage, body: string): Promise<[Buffer, Record<string, string>]> {
  const plain = Buffer.from(body);
  if (plain.length < COMPRESS_ABOVE || !takesGzip(request)) return [plain, {}];
  const aside = plain.length > ASIDE_ABOVE;
  const packed = aside ? await gzipAsync(plain, PACKING_OPTIONS) : gzipSync(plain, PACKING_OPTIONS);
  return [packed, PACKING];
}

/** Sends parts as fast as the caller takes them: a large answer is never in memory as a whole. */
async function stream(
  request: IncomingMessage,
  response: ServerResponse,
  answer: HttpAnswer,
  parts: Iterable<string>,
): Promise<void> {
  const packs = takesGzip(request);
  response.writeHead(answer.status, { ...answer.headers, ...(packs && PACKING) });
  const source = Readable.from(parts, { objectMode: true, highWaterMark: 1 });
  const sent = packs ? pipeline(source, createGzip(PACKING_OPTIONS), response) : pipeline(source, response);
  // The caller may have enough before the end.
  await sent.catch(() => undefined);
}

/** Sends an answer unless the caller has gone meanwhile. */
export async function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: HttpAnswer,
): Promise<void> {
  if (response.destroyed || response.headersSent) return;
  const { body = '' } = answer;
  if (typeof body !== 'string') {
    await stream(request, response, answer, body);
    return;
  }
  const [bytes, packing] = await pack(request, body);
  if (response.destroyed || response.headersSent) return;
  const length = answer.status === 204 ? {} : { 'Content-Length': String(bytes.length) };
  response.writeHead(answer.status, { ...answer.headers, ...packing, ...length });
  response.end(request.method === 'HEAD' || answer.status === 204 ? undefined : bytes);
}
