import { randomUUID } from 'node:crypto';
import { type Dispatcher, request } from 'undici';
import type { Cluster } from './cluster.ts';

/** One request of a partner: throws where it was not answered with 2xx. */
type Send = (url: string) => Promise<void>;

/** What partners send, as one consumer. */
export interface Requests {
  read: Send;
  /** A hand-off without a key, which does not need the database. */
  handOff: Send;
  /** A creation under a new key. */
  create: Send;
}

/** `dispatcher`: the client's own connections, instead of those that all share. */
export function createRequests(
  { org, credentials }: Pick<Cluster, 'org' | 'credentials'>,
  dispatcher?: Dispatcher,
): Requests {
  const { apiKey, apiSecret } = credentials.console;
  const send = async (url: string, content?: object, headers: Record<string, string> = {}) => {
    const { statusCode, body } = await request(url, {
      method: content ? 'POST' : 'GET',
      headers: {
        'x-api-key': apiKey,
        'x-api-secret': apiSecret,
        ...headers,
        ...(content && { 'content-type': 'application/json' }),
      },
      ...(content && { body: JSON.stringify(content) }),
      ...(dispatcher && { dispatcher }),
    });
    const text = await body.text();
    if (statusCode >= 300) throw new Error(`${statusCode} ${text}`);
  };
  const offer = () => ({ trip_id: randomUUID(), member_id: org.memberId });
  const result = { name: 'Casa Olivo', source: 'x', details: {} };
  return {
    read: (url) => send(`${url}/v1/members/${org.memberId}`),
    handOff: (url) => send(`${url}/api/v1/handoff`, { type: 'quote', ...offer(), result }),
    create: (url) => send(`${url}/v1/quotes`, { ...offer(), ...result }, { 'idempotency-key': randomUUID() }),
  };
}

/** Sends one request of each kind, each to another gateway of the cluster. */
export async function sendEachKind(cluster: Cluster, client: number): Promise<void> {
  const requests = Object.values(createRequests(cluster));
  for (const [index, send] of requests.entries()) {
    const { url } = cluster.gateways[(client + index) % cluster.gateways.length] as { url: string };
    await send(url);
  }
}
