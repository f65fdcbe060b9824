import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { constants, gunzip, gzip, inflate } from 'node:zlib';
import { ApiError } from './org/api-error.ts';

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

const MAX_BODY = 50 * 1024 * 1024;
const COMPRESS_ABOVE = 1024;

const gunzipAsync = promisify(gunzip);
const inflateAsync = promisify(inflate);
const gzipAsync = promisify(gzip);

function tooLarge(): ApiError {
  return new ApiError(413, 'REQUEST_TOO_LARGE', `Request bodies over ${MAX_BODY} bytes are refused`);
}

async function readRaw(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) throw tooLarge();
    chunks.push(chunk);
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

async function unpack(encoding: string | undefined, raw: Buffer): Promise<Buffer> {
  const options = { maxOutputLength: MAX_BODY };
  try {
    if (encoding === 'gzip') return await gunzipAsync(raw, options);
    if (encoding === 'deflate') return await inflateAsync(raw, options);
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge();
    throw new ApiError(400, 'JSON_PARSER_ERROR', `The body is not valid ${encoding}`);
  }
  if (encoding === undefined || encoding === 'identity') return raw;
  throw new ApiError(415, 'UNSUPPORTED_MEDIA_TYPE', `Content-Encoding ${encoding} is not supported`);
}

/** The body as its sender meant it, `Content-Encoding: gzip` and `deflate` taken off. @throws ApiError 413, 415, 400. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const raw = await readRaw(request);
  return raw.length === 0 ? raw : unpack(request.headers['content-encoding']?.toLowerCase(), raw);
}

export function jsonAnswer(status: number, body: unknown, headers: Record<string, string> = {}): HttpAnswer {
  const type = { 'Content-Type': 'application/json;charset=UTF-8' };
  return { status, headers: { ...type, ...headers }, body: JSON.stringify(body) };
}

/** What stands before the service answers in HTML or text, never in the API's own error format. */
export function edgeAnswer(status: number, text: string): HttpAnswer {
  return {
    status,
    headers: { 'Content-Type': 'text/html; charset=UTF-8' },
    body: `<html><body>${text}</body></html>`,
  };
}

async function pack(request: IncomingMessage, answer: HttpAnswer): Promise<[Buffer, Record<string, string>]> {
  const plain = Buffer.from(answer.body ?? '');
  const accepted = request.headers['accept-encoding'] ?? '';
  if (plain.length < COMPRESS_ABOVE || !/\bgzip\b/.test(accepted)) return [plain, {}];
  const packed = await gzipAsync(plain, { level: constants.Z_BEST_SPEED });
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
