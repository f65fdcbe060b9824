import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { closeServer, listen } from '../../simulators/shared/server.ts';

/** A simulated org under another address, where what the gateway sends can be seen. */
export interface RecordingProxy {
  url: string;
  /** Requests so far, in order. */
  seen: { method: string; path: string; headers: IncomingHttpHeaders; body: string }[];
  close(): Promise<void>;
}

export async function startRecordingProxy(target: string): Promise<RecordingProxy> {
  const seen: RecordingProxy['seen'] = [];
  let url = '';
  const server = createServer((request, response) => {
    forward(request).then(
      ({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(body),
      () => response.destroy(),
    );
  });

  async function forward(request: IncomingMessage) {
    const { method = '', url: path = '', headers } = request;
    const sent = await buffer(request);
    seen.push({ method, path, headers, body: sent.toString('utf8') });
    const { host: _, 'content-length': _length, connection: _connection, ...others } = headers;
    const answer = await fetch(target + path, {
      method,
      headers: others as Record<string, string>,
      ...(sent.length > 0 && { body: new Uint8Array(sent) }),
    });
    // The org names its own address as the one for calls.
    const body = (await answer.text()).replaceAll(target, url);
    return { status: answer.status, type: answer.headers.get('content-type') ?? 'text/plain', body };
  }

  ({ url } = await listen(server));
  return {
    url,
    seen,
    close: () => closeServer(server),
  };
}
