import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { World } from './virtual/world.ts';

/** A program that webhooks are sent to: an endpoint is a path of it. */
export interface Receiver {
  url: string;
  /** Ids of the events that were answered with 204, by path. */
  received: Map<string, Set<string>>;
  /** Requests in a hundred that fail, in one way or another. */
  failsPercent: number;
}

export async function startReceiver(world: World): Promise<Receiver> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const id = String(request.headers['webhook-id']);
      const path = request.url ?? '';
      const ids = receiver.received.get(path) ?? new Set();
      receiver.received.set(path, ids);
      const { random } = world;
      if (random.chance(receiver.failsPercent / 100)) {
        const way = random.whole(0, 2);
        if (way === 0) request.socket.destroy();
        else if (way === 1) response.writeHead(500).end();
        // It is taken, and nobody hears of it.
        else ids.add(id);
      } else {
        ids.add(id);
        response.writeHead(204).end();
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = { url: `http://127.0.0.1:${port}`, received: new Map(), failsPercent: 0 };
  return receiver;
}
