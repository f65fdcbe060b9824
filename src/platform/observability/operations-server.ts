import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerLimits, limitConnections, trackedResponses } from '../http/connections.ts';

const maxConnections = 100;

/**
 * The port for operators, never for partners: `/metrics` (Prometheus), `/livez` (the process
 * responds) and `/readyz` (503 before it is warm and while it drains).
 */
export function createOperationsServer(
  source: { readonly contentType: string; metrics(): Promise<string> },
  isReady: () => boolean,
) {
  const server: Server = createServer(trackedResponses, (request, response) => {
    const path = request.url?.split('?', 1)[0];
    if (path === '/livez') return answer(200, 'alive');
    if (path === '/readyz') return isReady() ? answer(200, 'ready') : answer(503, 'not ready');
    if (path !== '/metrics') return answer(404, 'not found');
    source.metrics().then(
      (text) => answer(200, text, source.contentType),
      () => answer(500, "couldn't collect the metrics"),
    );

    function answer(status: number, body: string, contentType = 'text/plain; charset=utf-8') {
      response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' });
      response.end(request.method === 'HEAD' ? undefined : `${body.trimEnd()}\n`);
    }
  });
  limitConnections(server, 'connection', {
    max: maxConnections,
    ...answerLimits,
    originOf: (address) => address,
  });
  return {
    listen: (host: string, port: number): Promise<string> =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, host, () => resolve(urlOf(server)));
      }),
    close: (): Promise<void> =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}
