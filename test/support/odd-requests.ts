import fc from 'fast-check';
import { anyText } from './any-text.ts';
import type { Credentials } from './gateway.ts';
import type { Operation } from './operations.ts';

/** A request that is framed as HTTP has it, whatever its parts are: so it must be answered. */
export interface OddRequest {
  method: string;
  /** Latin-1. */
  bytes: string;
}

const noise = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes).toString('latin1'));
/** What may stand in the value of a header, and in a URI. */
const visible = (maxLength: number) =>
  noise(maxLength).map((text) => text.replaceAll(/[^\t!-~\x80-\xff]/g, 'x'));
const uriText = (maxLength: number) => noise(maxLength).map((text) => text.replaceAll(/[^!-~]/g, '%'));

const segment = fc.oneof(
  fc.uuid(),
  uriText(40),
  anyText(20).map(wellFormedUri),
  fc.constantFrom('', '..', '%00', '%ff', '%2F', 'x'.repeat(300), 'y'.repeat(9000), 'con_0000000000000000'),
);

const query = fc.oneof(
  fc.constant(''),
  fc
    .tuple(
      fc.constantFrom(
        'limit',
        'cursor',
        'trip_id',
        'member_id',
        'status',
        'email',
        'since',
        'result',
        '__proto__',
      ),
      fc.oneof(fc.uuid(), fc.nat().map(String), uriText(60), anyText().map(wellFormedUri)),
    )
    .map(([name, value]) => `?${name}=${value}`),
  uriText(60).map((text) => `?${text}`),
);

const method = fc.oneof(
  fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS', 'HEAD', 'QUERY', 'PROPFIND', 'TRACE'),
);

const header = fc.oneof(
  fc.tuple(
    fc.constantFrom('content-type', 'Content-Type', 'accept', 'content-encoding'),
    fc.constantFrom(
      'application/json',
      'application/json; charset=latin1',
      'text/plain',
      '',
      'a/b;;',
      'gzip',
    ),
  ),
  fc.tuple(
    fc.constantFrom(
      'idempotency-key',
      'if-match',
      'if-none-match',
      'x-request-id',
      'traceparent',
      'webhook-id',
    ),
    fc.oneof(fc.uuid(), visible(80), fc.constantFrom('*', '"a", "b', '""')),
  ),
  fc.tuple(
    fc.constantFrom(
      'expect',
      'connection',
      'upgrade',
      'x-forwarded-for',
      'accept-version',
      'te',
      'origin',
      'range',
    ),
    fc.oneof(
      visible(40),
      fc.constantFrom('100-continue', 'keep-alive', 'upgrade', 'websocket', '1.x', 'trailers'),
    ),
  ),
  fc.tuple(
    fc.constantFrom('webhook-timestamp', 'webhook-signature', 'x-api-key', 'x-api-secret', 'cookie', 'x-odd'),
    visible(80),
  ),
);

const memberName = fc.constantFrom(
  ...['type', 'trip_id', 'member_id', 'result', 'name', 'source', 'details', 'status', 'permissions', 'id'],
  ...['graceWindowHours', 'certificateFingerprints', 'merchant_id', 'party_size', 'data', '__proto__', ''],
);
const json = fc.oneof(
  fc.dictionary(memberName, fc.oneof(fc.jsonValue(), fc.uuid(), fc.constantFrom('quote', 'booking'))),
  fc.jsonValue(),
);
const body = fc.oneof(
  fc.constant(undefined),
  json.map((value) => Buffer.from(JSON.stringify(value)).toString('latin1')),
  json.map((value) => JSON.stringify(value).slice(0, -1)),
  noise(200),
  fc.constantFrom('[', '{"a":', '"\\ud800"', '['.repeat(50_000), `{"name":"${'x'.repeat(70_000)}"}`),
);

/** Requests to all operations, and to paths that are none. */
export function oddRequests(operations: Operation[], consumers: Credentials[]): fc.Arbitrary<OddRequest> {
  const target = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...operations) },
    { weight: 1, arbitrary: fc.record({ method, path: uriText(80).map((text) => `/${text}`) }) },
  );
  return fc
    .record({
      target,
      otherMethod: fc.option(method, { freq: 4 }),
      segment: fc.option(segment, { freq: 2 }),
      query,
      headers: fc.array(header, { maxLength: 4 }),
      consumer: fc.option(fc.constantFrom(...consumers), { freq: 4 }),
      body,
      isChunked: fc.boolean(),
    })
    .map(({ target: { method: own, path }, otherMethod, segment: odd, query: asked, ...rest }) => {
      const uri = odd === null ? path : path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, () => odd);
      const used = otherMethod ?? own;
      return { method: used, bytes: write(`${used} ${uri}${asked} HTTP/1.1`, rest) };
    });
}

interface Rest {
  headers: [string, string][];
  consumer: Credentials | null;
  body: string | undefined;
  isChunked: boolean;
}

function write(line: string, { headers, consumer, body: text, isChunked }: Rest): string {
  const lines = [line, 'host: odd', ...headers.map(([name, value]) => `${name}: ${value}`)];
  if (consumer) lines.push(`x-api-key: ${consumer.apiKey}`, `x-api-secret: ${consumer.apiSecret}`);
  if (text === undefined) return `${lines.join('\r\n')}\r\n\r\n`;
  lines.push(isChunked ? 'transfer-encoding: chunked' : `content-length: ${text.length}`);
  return `${lines.join('\r\n')}\r\n\r\n${isChunked ? inChunks(text) : text}`;
}

function inChunks(text: string): string {
  const middle = text.length >> 1;
  const chunks = [text.slice(0, middle), text.slice(middle)].filter((chunk) => chunk !== '');
  return `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`;
}

function wellFormedUri(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Streams of bytes that are HTTP in parts, at most. */
export function oddStreams(requests: fc.Arbitrary<OddRequest>): fc.Arbitrary<string> {
  const whole = requests.map(({ bytes }) => bytes);
  const part = fc.oneof(
    noise(300),
    whole,
    fc.tuple(whole, fc.nat()).map(([bytes, at]) => bytes.slice(0, at % (bytes.length + 1))),
    fc.tuple(whole, fc.nat(), noise(8)).map(([bytes, at, other]) => {
      const from = at % (bytes.length + 1);
      return bytes.slice(0, from) + other + bytes.slice(from + other.length);
    }),
    fc.constantFrom(
      '\r\n',
      '\n',
      '\0',
      'GET ',
      ' HTTP/1.1\r\n',
      'HTTP/1.0\r\n',
      '0\r\n\r\n',
      'ffffffffffffffff\r\n',
    ),
    fc.constantFrom(
      '\x16\x03\x01\x02\x00',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'CONNECT a:1 HTTP/1.1\r\n\r\n',
    ),
    fc.constantFrom(
      'POST /api/v1/handoff HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n',
      'POST /api/v1/handoff HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n',
      'GET /v1/healthz HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n',
    ),
  );
  return fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(''));
}
