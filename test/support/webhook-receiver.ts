import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A webhook as a receiver got it. */
export interface Received {
  path: string;
  headers: Record<string, string>;
  body: string;
  event: { id: string; type: string; resource: { type: string; id: string }; data: unknown };
  /** Milliseconds since the process began. */
  at: number;
}

export interface WebhookReceiver {
  url: string;
  received: Received[];
  /** What is answered from now on; 204 at first. */
  answer: (response: ServerResponse, received: Received) => void;
  /** Resolves when so many webhooks have come in all. */
  until(count: number): Promise<Received[]>;
  stop(): void;
}

/** A program that webhooks are sent to. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const waiting = new Set<() => void>();
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      const headers = request.headers as Record<string, string>;
      const event = JSON.parse(body);
      const got = { path: request.url ?? '', headers, body, event, at: performance.now() };
      receiver.received.push(got);
      receiver.answer(response, got);
      for (const check of waiting) check();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: [],
    answer: (response) => response.writeHead(204).end(),
    until: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (receiver.received.length < count) return;
          waiting.delete(check);
          resolve(receiver.received);
        };
        waiting.add(check);
        check();
      }),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return receiver;
}
