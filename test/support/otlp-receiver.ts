import { createServer, type IncomingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { closeServer, listen } from '../../simulators/shared/server.ts';

/** A span as OTLP's JSON has it, its attributes as an object. */
export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  /** 1 internal, 2 server, 3 client. */
  kind: number;
  attributes: Record<string, unknown>;
  /** `code` 2 is an error. */
  status: { code?: number };
  resource: Record<string, unknown>;
}

/** A collector that keeps what it is sent over OTLP/HTTP. */
export interface OtlpReceiver {
  url: string;
  /** What arrived, undecoded. */
  requests: { path: string; headers: IncomingHttpHeaders; body: Buffer }[];
  /** The spans of everything that came as JSON. */
  spans(): ReceivedSpan[];
  close(): Promise<void>;
}

type Attributes = { key: string; value: Record<string, unknown> }[];
interface Payload {
  resourceSpans: {
    resource: { attributes: Attributes };
    scopeSpans: { spans: (Omit<ReceivedSpan, 'attributes'> & { attributes: Attributes })[] }[];
  }[];
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const requests: OtlpReceiver['requests'] = [];
  const server = createServer((request, response) => {
    buffer(request).then(
      (raw) => {
        const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw;
        requests.push({ path: request.url ?? '', headers: request.headers, body });
        const type = request.headers['content-type'] ?? 'application/json';
        return response.writeHead(200, { 'content-type': type }).end(type === 'application/json' ? '{}' : '');
      },
      () => response.destroy(),
    );
  });
  const { url } = await listen(server);
  return {
    url,
    requests,
    spans: () =>
      requests
        .filter(({ headers }) => headers['content-type'] === 'application/json')
        .flatMap(({ body }) => spansOf(JSON.parse(body.toString('utf8')) as Payload)),
    close: () => closeServer(server),
  };
}

function spansOf({ resourceSpans }: Payload): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        attributes: asObject(span.attributes),
        resource: asObject(resource.attributes),
      })),
    ),
  );
}

function asObject(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
