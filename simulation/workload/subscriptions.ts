import type { FeedEvent } from '../auditor/facts.ts';
import { readAll } from '../ending.ts';
import type { Endpoint } from '../receiver.ts';
import type { ConsumerName, Stage } from '../stage.ts';
import type { Action } from './writes.ts';

/** Makes a webhook endpoint, to which all later events go. Whether it was made. */
export async function makeEndpoint(stage: Stage, as: ConsumerName, path: string): Promise<boolean> {
  const { client, receiver, journal } = stage;
  const endpoint: Endpoint = {
    ...{ consumer: as, path, secret: undefined },
    ...{ events: new Map(), forged: new Set(), earlier: new Set() },
  };
  receiver.endpoints.set(path, endpoint);
  const body = JSON.stringify({ url: receiver.url + path });
  const answer = await client.send({ method: 'POST', path: '/v1/webhook-endpoints', as, body });
  journal.note(`${as} makes the endpoint ${path}: ${answer?.status ?? 'no answer'}`);
  if (answer?.status !== 201) return false;
  endpoint.secret = (JSON.parse(answer.text) as { secret: string }).secret;
  const events = await readAll<FeedEvent>(stage, '/v1/events?limit=200', { as });
  endpoint.earlier = new Set(events.map(({ id }) => id));
  return true;
}

const mostEndpoints = 3;

/** The boss, who had no endpoint, makes some. One whose answer was lost may exist, and is forgotten. */
export const subscribe: Action = async (stage) => {
  const { endpoints } = stage.receiver;
  const own = [...endpoints.values()].filter(({ consumer }) => consumer === 'boss');
  if (own.length >= mostEndpoints) return;
  const path = `/boss-${own.length + 1}`;
  if (!(await makeEndpoint(stage, 'boss', path))) endpoints.delete(path);
};
