import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Opens the port (0: any free one) and says where it is. @throws Error when the port is taken. */
export async function listen(
  server: Server,
  port: number,
  host: string,
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
