import type { FeedEvent, Request } from '../auditor/facts.ts';
import { readAll } from '../ending.ts';
import { type Endpoint, noteChange } from '../receiver.ts';
import type { ConsumerName, Stage } from '../stage.ts';
import type { Action } from './writes.ts';

/** Makes a webhook endpoint, to which all later events go. Whether it was made. */
export async function makeEndpoint(stage: Stage, as: ConsumerName, path: string): Promise<boolean> {
  const { client, receiver, journal } = stage;
  const endpoint: Endpoint = {
    ...{ consumer: as, path, id: undefined, secret: undefined, hasPrevious: false, settledAt: 0 },
    ...{ events: new Map(), forged: new Set(), earlier: new Set(), isDeleted: false, late: new Set() },
  };
  receiver.endpoints.set(path, endpoint);
  const body = JSON.stringify({ url: receiver.url + path });
  const answer = await client.send({ method: 'POST', path: '/v1/webhook-endpoints', as, body });
  journal.note(`${as} makes the endpoint ${path}: ${answer?.status ?? 'no answer'}`);
  if (answer?.status !== 201) return false;
  ({ id: endpoint.id, secret: endpoint.secret } = JSON.parse(answer.text) as Pick<Endpoint, 'id' | 'secret'>);
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

const mostTries = 60;

/** An endpoint gets another secret; those before it sign for an hour too, or not any more. */
export const renewSecret: Action = async (stage, random) => {
  const { auditor, client, receiver, journal, world } = stage;
  const free = [...receiver.endpoints.values()].filter(
    ({ secret, isDeleted }) => secret !== undefined && !isDeleted,
  );
  if (free.length === 0) return;
  const endpoint = random.pick(free);
  const { consumer: as, path, id } = endpoint;
  endpoint.secret = undefined;
  const graceHours = random.pick([0, 1]);
  const body = JSON.stringify({ grace_window_hours: graceHours });
  const request: Request = { method: 'POST', path: `/v1/webhook-endpoints/${id}/rotate-secret`, as, body };
  let answer = await client.send(request);
  for (let tries = 1; answer?.status !== 200 && tries < mostTries; tries++) {
    await world.pause(random.between(200, 2000));
    answer = await client.send(request);
  }
  journal.note(`${path} gets another secret: ${answer?.status ?? 'no answer'}`);
  if (answer?.status !== 200) {
    auditor.violations.push(`${path} never gets another secret`);
    return;
  }
  endpoint.secret = (JSON.parse(answer.text) as { secret: string }).secret;
  endpoint.hasPrevious = graceHours > 0;
  noteChange(endpoint, world);
};

/** The boss deletes one of its endpoints. */
export const unsubscribe: Action = async ({ auditor, client, receiver, journal, world }, random) => {
  const own = [...receiver.endpoints.values()].filter(
    ({ consumer, secret, isDeleted }) => consumer === 'boss' && secret !== undefined && !isDeleted,
  );
  if (own.length === 0) return;
  const endpoint = random.pick(own);
  endpoint.isDeleted = true;
  endpoint.settledAt = Number.POSITIVE_INFINITY;
  const request: Request = { method: 'DELETE', path: `/v1/webhook-endpoints/${endpoint.id}`, as: 'boss' };
  let status: number | undefined;
  for (let tries = 0; status !== 204 && status !== 404 && tries < mostTries; tries++) {
    if (tries > 0) await world.pause(random.between(200, 2000));
    status = (await client.send(request))?.status;
  }
  journal.note(`the boss deletes the endpoint ${endpoint.path}: ${status ?? 'no answer'}`);
  if (status === 204 || status === 404) noteChange(endpoint, world);
  else auditor.violations.push(`the endpoint ${endpoint.path} can't be deleted`);
};
