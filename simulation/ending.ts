import type { Answer, Collection, Ending, FeedEvent, Request, Row, Table } from './auditor/facts.ts';
import { objectOf } from './auditor/records.ts';
import { pairOf } from './clients.ts';
import { Replica } from './replica.ts';
import { type ConsumerName, consumers, type Stage } from './stage.ts';
import { allow, type Right } from './workload/rights.ts';

const collections: readonly Collection[] = ['quotes', 'bookings'];

/** By then each replica has heard of a change of rights. */
const noticeMs = 2000;

/** Work that must not be left, by what it is called. */
const unfinished = {
  'hand-off': `select external_id::text as id, status as state from handoffs where status = 'accepted'
    or (status in ('cancelled', 'rejected') and may_exist)`,
  reservation: `select id::text, state from reservations where looks_again
    or state not in ('confirmed', 'cancelled', 'refused', 'failed')`,
  webhook: `select webhook_id as id, state from webhook_events where state in ('received', 'dead')`,
  // The hourly job deletes those of deleted endpoints.
  delivery: `select number::text as id, status as state from deliveries
    where status = 'pending' and endpoint_id in (select id from webhook_endpoints)`,
};

/** Unfinished work in the database, one line each. */
export async function findUnfinished({ database }: Stage): Promise<string[]> {
  const found: string[] = [];
  for (const [what, query] of Object.entries(unfinished)) {
    const rows = await database.query<{ id: string; state: string }>(query);
    found.push(...rows.map(({ id, state }) => `the ${what} ${id} (${state})`));
  }
  return found;
}

/** Looks at everything, when all is over. */
export async function lookAround(stage: Stage, left: readonly string[]): Promise<Ending> {
  const { org, partner } = stage;
  const rows = async (suffix: string) => {
    const all: [Collection, Row[]][] = [];
    for (const collection of collections)
      all.push([collection, await org.do<Row[]>('GET', `records/${objectOf(collection)}${suffix}`)]);
    return new Map(all);
  };
  const [live, binned] = [await rows(''), await rows('/deleted')];
  const views = await lookAtViews(stage);
  const names = Object.keys(consumers) as ConsumerName[];
  const feeds = new Map<string, FeedEvent[]>();
  for (const name of names)
    feeds.set(name, await readAll<FeedEvent>(stage, '/v1/events?limit=200', { as: name }));
  const lists = new Map<string, Record<string, unknown>[]>();
  for (const name of ['agent'] as const) {
    const found = [];
    for (const collection of collections)
      found.push(...(await readAll<Shown>(stage, `/v1/${collection}?limit=200`, { as: name })));
    lists.set(name, found);
  }
  return {
    live,
    binned,
    world: await lookAtWorld(stage),
    members: await lookAtMembers(stage),
    intruders: [...(await tryRetired(stage)), ...(await tryWithout(stage, 'write'))],
    tables: await partner.do<Table[]>('GET', 'bookings'),
    views,
    feeds,
    lists,
    shown: await lookAtCollections(stage),
    received: [...stage.receiver.endpoints.values()],
    unfinished: left,
    calls: await countCalls(stage),
  };
}

/** All records as each replica shows them. Nobody has written for longer than answers may be old where only some keep a copy. */
async function lookAtCollections(stage: Stage): Promise<Ending['shown']> {
  const maxAge = Replica.copiesAgreeSince(stage.replicas) === undefined ? 15 : 60;
  const headers = { 'cache-control': `max-age=${maxAge}` };
  const shown = [];
  for (const at of stage.replicas)
    for (const collection of collections) {
      const records = await readAll<Shown>(stage, `/v1/${collection}?limit=50`, {
        as: 'boss',
        at,
        headers,
      });
      shown.push({ by: at.actor.name, collection, records });
    }
  return shown;
}

/** Looks at all that clients were told of. */
async function lookAtViews(stage: Stage): Promise<Map<string, Answer>> {
  const { records, trips, reservations } = stage.auditor;
  const views = new Map<string, Answer>();
  const look = async (path: string, as = 'boss') => {
    const answer = await ask(stage, { method: 'GET', path, as });
    if (answer !== undefined) views.set(path, answer);
  };
  for (const { id, write } of records.known)
    if (write.final?.status === 202) await look(`/v1/handoffs/${id}`, write.request.as);
  for (const { id } of trips.waiting()) await look(`/v1/handoffs/${id}`);
  for (const { id } of trips.known) await look(`/v1/trips/${id}`);
  for (const { id } of reservations.known) if (id !== undefined) await look(`/v1/reservations/${id}`);
  return views;
}

/** Records of the tester's world, as the org would have them. */
async function lookAtWorld(stage: Stage): Promise<Ending['world']> {
  const world = new Map<Collection, Row[]>();
  for (const collection of collections) {
    const records = await readAll<Shown>(stage, `/v1/${collection}?limit=200`, { as: 'tester' });
    const rows = records.map(({ id, name, source, trip_id: trip }) => ({
      ...{ External_Id__c: id, Name__c: name, Source__c: source, Trip_Id__c: trip },
    }));
    world.set(collection, rows);
  }
  return world;
}

/** No replica knows a pair that is over. */
async function tryRetired({ client, retired, replicas }: Stage): Promise<string[]> {
  const found: string[] = [];
  for (const { as, pair } of retired) {
    for (const replica of replicas) {
      const answer = await client.sendBy(pairOf(pair), { method: 'GET', path: '/v1/consumer', as }, replica);
      if (answer?.status !== 401) found.push(`${as} at ${replica.actor.name}: ${answer?.status}`);
    }
  }
  return found;
}

/** No replica lets anybody do what the boss has just forbidden. */
async function tryWithout(stage: Stage, right: Right): Promise<string[]> {
  const { client, replicas, members, world } = stage;
  const status = await allow(stage, 'intern', [right]);
  if (status !== 200) return [`nobody can take ${right} from intern: ${status}`];
  await world.pause(noticeMs);
  const found: string[] = [];
  for (const replica of replicas) {
    const about = {
      trip_id: world.random.uuid(),
      member_id: members[0],
      result: { name: 'Hotel', source: 'x' },
    };
    const body = JSON.stringify({ type: 'quote', ...about });
    const request = {
      method: 'POST',
      path: '/api/v1/handoff',
      as: 'intern',
      key: world.random.uuid(),
      body,
    } as const;
    const answer = await client.send(request, replica);
    if (answer !== undefined && answer.status < 300)
      found.push(`intern at ${replica.actor.name}: ${answer.status}, without ${right}`);
  }
  return found;
}

/** The members that the org has reported, as each replica shows them; none where only some keep a copy, which must not last. */
async function lookAtMembers({ auditor, client, org, replicas }: Stage): Promise<Ending['members']> {
  if (Replica.copiesAgreeSince(replicas) === undefined) return [];
  const found: Ending['members'][number][] = [];
  for (const id of auditor.webhooks.members) {
    const [row] = await org.do<Row[]>('GET', `records/Contact?External_Id__c=${id}`);
    for (const replica of replicas) {
      const answer = await client.send({ method: 'GET', path: `/v1/members/${id}`, as: 'boss' }, replica);
      const { last_name: shown } = JSON.parse(answer?.text ?? '{}') as { last_name?: string };
      found.push({ id, shown: shown ?? `${answer?.status}`, name: String(row?.['LastName']) });
    }
  }
  return found;
}

type Shown = Record<string, unknown>;

export async function readAll<Item>(
  stage: Stage,
  path: string,
  { as, at, headers = {} }: { as: string; at?: Replica; headers?: Record<string, string> },
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor = '';
  for (;;) {
    const answer = await ask(stage, { method: 'GET', path: path + cursor, as, headers }, at);
    const page = JSON.parse(answer?.text ?? '{}') as {
      data?: Item[];
      has_more?: boolean;
      next_cursor?: string;
    };
    if (page.data === undefined) throw new Error(`${path} of ${as}: ${answer?.status} ${answer?.text}`);
    items.push(...page.data);
    if (page.has_more !== true) return items;
    cursor = `&cursor=${page.next_cursor}`;
  }
}

/** Asks until there is an answer. */
async function ask({ client, world }: Stage, request: Request, at?: Replica): Promise<Answer | undefined> {
  let answer: Answer | undefined;
  for (let tries = 0; tries < 20; tries++) {
    answer = await client.send(request, at);
    if (answer !== undefined && answer.status < 500) return answer;
    await world.pause(1000);
  }
  return answer;
}

async function countCalls(stage: Stage): Promise<Ending['calls']> {
  const { database, org, hasBudget } = stage;
  const { metered } = await org.do<{ metered: number }>('GET', 'counters');
  // What is counted is written each second.
  await stage.world.pause(2500);
  const [charged] = await database.query<{ calls: number }>(
    'select coalesce(sum(calls), 0) as calls from crm_usage',
  );
  const health = hasBudget ? await ask(stage, { method: 'GET', path: '/v1/healthz', as: 'boss' }) : undefined;
  const { crm } = JSON.parse(health?.text ?? '{}') as { crm?: { quota?: { budget_used?: number } } };
  return { counted: metered, charged: Number(charged?.calls) + 0.01, budgeted: crm?.quota?.budget_used };
}
