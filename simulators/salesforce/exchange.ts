import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gunzip, inflate } from 'node:zlib';
import { type HttpAnswer, readRaw } from '../shared/exchange.ts';
import { ApiError } from './org/api-error.ts';

const MAX_BODY = 50 * 1024 * 1024;

const gunzipAsync = promisify(gunzip);
const inflateAsync = promisify(inflate);

function tooLarge(): ApiError {
  return new ApiError(413, 'REQUEST_TOO_LARGE', `Request bodies over ${MAX_BODY} bytes are refused`);
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
  const raw = await readRaw(request, MAX_BODY);
  if (raw === undefined) throw tooLarge();
  return raw.length === 0 ? raw : unpack(request.headers['content-encoding']?.toLowerCase(), raw);
}

/** What stands before the service answers in HTML or text, never in the API's own error format. */
export function edgeAnswer(status: number, text: string): HttpAnswer {
  return {
    status,
    headers: { 'Content-Type': 'text/html; charset=UTF-8' },
    body: `<html><body>${text}</body></html>`,
  };
}
