import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

type Serve = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Longer than any client keeps an idle connection, so that no request meets a connection just being closed. */
const KEEP_ALIVE_MS = 120_000;

/** A server that shows faults of its own, under this name and with their stack, which holds no credentials. */
export function createSimulatorServer(name: string, options: ServerOptions, serve: Serve): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_MS, ...options }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      // After a caller hung up mid-body, or a wait was ended by closing, there is no one to answer.
      const isAbort = error instanceof Error && error.name === 'AbortError';
      if (!request.destroyed && !response.headersSent && !isAbort) reportBug(name, error);
      response.destroy();
    });
  });
}

function reportBug(name: string, error: unknown): void {
  process.stderr.write(`${name}: ${error instanceof Error ? error.stack : String(error)}\n`);
}

/** Opens the port (0: any free one) and says where it is. @throws Error when the port is taken. */
export async function listen(
  server: Server,
  port = 0,
  host = '127.0.0.1',
): Promise<{ url: string; port: number }> {
  const address = await new Promise<AddressInfo>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve(server.address() as AddressInfo);
    });
  });
  return { url: urlOf(host, address.port), port: address.port };
}

/** Where this machine reaches the simulator, also when it listens on all addresses. */
function urlOf(host: string, port: number): string {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Ends all connections, whatever is under way on them. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
