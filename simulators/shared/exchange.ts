import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { constants, gzip, gzipSync } from 'node:zlib';

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
  body?: string;
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

async function pack(request: IncomingMessage, answer: HttpAnswer): Promise<[Buffer, Record<string, string>]> {
  const plain = Buffer.from(answer.body ?? '');
  const accepted = request.headers['accept-encoding'] ?? '';
  if (plain.length < COMPRESS_ABOVE || !/\bgzip\b/.test(accepted)) return [plain, {}];
  const options = { level: constants.Z_BEST_SPEED };
  const packed = plain.length > ASIDE_ABOVE ? await gzipAsync(plain, options) : gzipSync(plain, options);
  return [packed, { 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' }];
}

/** Sends an answer unless the caller has gone meanwhile. */
export async function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: HttpAnswer,
): Promise<void> {
  const [body, packing] = await pack(request, answer);
  if (response.destroyed || response.headersSent) return;
  const length = answer.status === 204 ? {} : { 'Content-Length': String(body.length) };
  response.writeHead(answer.status, { ...answer.headers, ...packing, ...length });
  response.end(request.method === 'HEAD' || answer.status === 204 ? undefined : body);
}
