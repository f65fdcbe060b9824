import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from './eventually.ts';
import type { GatewayProcess } from './gateway-process.ts';

type Backend = Pick<GatewayProcess, 'url' | 'operationsUrl'>;

/** One address in front of several gateways. */
export interface Balancer {
  url: string;
  /** Resolves when that gateway has been found ready. */
  ready(backend: Backend): Promise<void>;
  close(): Promise<void>;
}

const pollMs = 50;

/**
 * A balancer of connections, as of layer 4: each new one goes to the next gateway whose `/readyz` answered 200 when it
 * was last asked. It knows nothing of HTTP, so a connection that a client keeps stays with its gateway. Nothing is
 * repeated: what a gateway drops, the client sees.
 */
export async function startBalancer(backends: () => readonly Backend[]): Promise<Balancer> {
  let ready: Backend[] = [];
  let next = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const backend = ready[next++ % ready.length];
    if (backend === undefined) {
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(backend.url);
    const upstream = connect(Number(port), hostname);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.once('close', () => sockets.delete(from));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = new AbortController();
  const watching = (async () => {
    while (!stop.signal.aborted) {
      const all = backends();
      const states = await Promise.all(all.map(isReady));
      ready = all.filter((_, index) => states[index]);
      await delay(pollMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  })();
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    ready: async (backend) => {
      await eventually(() => assert.ok(ready.includes(backend)), { everyMs: 10 });
    },
    close: async () => {
      stop.abort();
      await watching;
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function isReady({ operationsUrl }: Backend): Promise<boolean> {
  try {
    return (await fetch(`${operationsUrl}/readyz`, { headers: { connection: 'close' } })).ok;
  } catch {
    return false;
  }
}
