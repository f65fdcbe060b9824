import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { markShared } from '../platform/http/connections.ts';
import { isNotModified } from './pipeline/request-head.ts';
import type { RouteAnswer } from './route.ts';

export interface StaticBody {
  contentType: string;
  plain: Form;
  /** Undefined for what is compressed already. */
  gzip?: Form;
}

interface Form {
  bytes: Buffer;
  etag: string;
}

export async function createStaticBody(contentType: string, bytes: Buffer): Promise<StaticBody> {
  const compressed = await promisify(gzip)(bytes, { level: 9 });
  return { contentType, plain: formOf(bytes), gzip: formOf(compressed) };
}

export function createArchiveBody(contentType: string, bytes: Buffer): StaticBody {
  return { contentType, plain: formOf(bytes) };
}

function formOf(bytes: Buffer): Form {
  markShared(bytes);
  const digest = createHash('sha256').update(bytes).digest().subarray(0, 16);
  return { bytes, etag: `"${digest.toString('base64url')}"` };
}

/**
 * Answers with the body: compressed where the client takes that, 304 where it has it already. `asked`: headers of the
 * request; `headers`: those of the answer.
 */
export function answerWith(
  body: StaticBody,
  asked: IncomingHttpHeaders,
  headers: Record<string, string>,
): RouteAnswer {
  const { plain, gzip: compressed } = body;
  const isCompressed = compressed !== undefined && takesGzip(asked['accept-encoding']);
  const { bytes, etag } = isCompressed ? compressed : plain;
  const shared = {
    ...headers,
    ...(compressed && { vary: variesBy(headers['vary'], 'Accept-Encoding') }),
    etag,
  };
  if (isNotModified(asked['if-none-match'], etag)) return { status: 304, headers: shared };
  const ofContent = { 'content-type': body.contentType, ...(isCompressed && { 'content-encoding': 'gzip' }) };
  return { status: 200, body: bytes, headers: { ...shared, ...ofContent } };
}

function variesBy(...names: (string | undefined)[]): string {
  return names.filter((name) => name !== undefined).join(', ');
}

/** Weights of what a header takes, in its order; 0 means no (RFC 9110 section 12.4.2). */
function weightsIn(header: string | undefined): Map<string | undefined, number> {
  const weights = new Map<string | undefined, number>();
  for (const entry of header?.toLowerCase().split(',') ?? []) {
    const [name, ...parameters] = entry.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    weights.set(name, Number(weight));
  }
  return weights;
}

/** A named coding counts before `*` (RFC 9110 section 12.5.3). */
function takesGzip(header: string | undefined): boolean {
  const weights = weightsIn(header);
  const weight = weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0;
  return weight > 0;
}

/** Whether the caller wants a page: browsers name `text/html` first, programs JSON or anything. */
export function prefersHtml(accept: string | undefined): boolean {
  const weights = weightsIn(accept);
  const [html = 0, json = 0] = [weights.get('text/html'), weights.get('application/json')];
  const names = [...weights.keys()];
  const isFirst = names.indexOf('text/html') < names.indexOf('application/json');
  return html > 0 && (html > json || (html === json && isFirst));
}
