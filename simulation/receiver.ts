import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import type { FeedEvent, Received } from './auditor/facts.ts';
import type { World } from './virtual/world.ts';

/** A program that webhooks are sent to. */
export interface Receiver {
  url: string;
  /** By their paths. */
  endpoints: Map<string, Endpoint>;
  /** Requests in a hundred that fail, in one way or another. */
  failsPercent: number;
}

export interface Endpoint extends Received {
  /** In the API; undefined until it is made. */
  id: string | undefined;
  /** Undefined while it isn't known. */
  secret: string | undefined;
  /** Secrets before this one sign too. */
  hasPrevious: boolean;
  /** Time from which nothing is on its way that was sent before its last change; milliseconds of virtual time. */
  settledAt: number;
}

/** Longer than a delivery that was begun may go on. */
const onTheWayMs = 40_000;

/** Starts the time in which deliveries that were begun before may still come. */
export function noteChange(endpoint: Endpoint, world: World): void {
  endpoint.settledAt = world.elapsed + onTheWayMs;
}

export async function startReceiver(world: World): Promise<Receiver> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const endpoint = receiver.endpoints.get(request.url ?? '');
      const { random } = world;
      const failure = random.chance(receiver.failsPercent / 100)
        ? random.pick(['reset', 'refused', 'unheard'])
        : undefined;
      if (failure === 'reset') request.socket.destroy();
      else if (failure === 'refused') response.writeHead(500).end();
      else if (endpoint !== undefined)
        take(endpoint, request, { body: Buffer.concat(parts).toString(), at: world.elapsed });
      if (failure === undefined) response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = { url: `http://127.0.0.1:${port}`, endpoints: new Map(), failsPercent: 0 };
  return receiver;
}

function take(
  { secret, hasPrevious, events, forged, settledAt, isDeleted, late }: Endpoint,
  { headers }: IncomingMessage,
  { body, at }: { body: string; at: number },
): void {
  const id = String(headers['webhook-id']);
  const sentAt = new Date(Number(headers['webhook-timestamp']) * 1000);
  const isSettled = at >= settledAt;
  // An event may come before the answer that has the secret.
  if (secret !== undefined && isSettled) {
    const signatures = String(headers['webhook-signature']).split(' ');
    const isSigned = signatures.includes(new Webhook(secret).sign(id, sentAt, body));
    if (!isSigned || (signatures.length > 1 && !hasPrevious)) forged.add(id);
  }
  if (isDeleted && isSettled) late.add(id);
  events.set(id, JSON.parse(body) as FeedEvent);
}
