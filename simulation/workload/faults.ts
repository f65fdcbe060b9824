import { poison, type Row } from '../auditor/facts.ts';
import { type Known, objectOf } from '../auditor/records.ts';
import type { Credentials } from '../clients.ts';
import type { Stage } from '../stage.ts';
import { goodReach } from '../stores/reach.ts';
import type { Random } from '../virtual/random.ts';
import type { Actor } from '../virtual/world.ts';
import type { Action } from './writes.ts';

const orgEffects = {
  loseAnswer: 5,
  lateAnswer: 2,
  latency: 2,
  hang: 2,
  reset: 2,
  error: 3,
  lockRow: 2,
  recordError: 2,
  down: 1,
  concurrentLimit: 1,
};

const losses: typeof orgEffects = {
  ...orgEffects,
  loseAnswer: 10,
  hang: 6,
  reset: 1,
  error: 2,
  lockRow: 0,
  recordError: 0,
  concurrentLimit: 0,
};

/** The org fails for some of the next calls. */
export const failOrg: Action = async ({ org, journal, theme }, random) => {
  const losesAnswers = theme === 'lostAnswers' || theme === 'approvals';
  const kind = random.weighted(losesAnswers ? losses : orgEffects);
  const effect = {
    kind,
    ...(/^late|latency/.test(kind) && { ms: random.whole(100, 12_000) }),
    ...(kind === 'error' && {
      status: random.pick([500, 503]),
      errorCode: 'SERVER_UNAVAILABLE',
      message: 'try later',
    }),
    ...(kind === 'recordError' && { errorCode: 'UNABLE_TO_LOCK_ROW', message: 'locked' }),
  };
  const match = random.chance(0.5) ? { object: random.pick(['Quote__c', 'Booking__c']) } : {};
  const times = random.whole(1, losesAnswers ? 12 : 4);
  await org.do('POST', 'faults', { match, effect, times, probability: 0.7, seed: random.whole(1, 1e9) });
  journal.note(`the org: ${kind} ${times} times ${JSON.stringify(match)}`);
};

const partnerEffects = { loseAnswer: 4, lateAnswer: 2, hang: 1, reset: 2, error: 3, failure: 2 };

export const failPartner: Action = async ({ partner, journal }, random) => {
  const kind = random.weighted(partnerEffects);
  const effect = {
    kind,
    ...(kind === 'lateAnswer' && { ms: random.whole(500, 20_000) }),
    ...(kind === 'error' && { status: 503, stage: random.pick(['before', 'after']) }),
    ...(kind === 'failure' && { cause: 'SLOT_UNAVAILABLE' }),
  };
  const times = random.whole(1, 3);
  const match = kind === 'failure' ? { operation: 'CreateBooking' } : {};
  await partner.do('POST', 'faults', { match, effect, times, seed: random.whole(1, 1e9) });
  journal.note(`the partner: ${kind} ${times} times`);
};

/** Stands still for a while, then goes on with what came meanwhile. */
export const suspend: Action = async (stage, random) => {
  const { actor } = random.pick(stage.replicas);
  const ms = random.pick([300, 2000, 9000, 12_000, 33_000, 40_000]) * random.between(0.9, 1.1);
  if (actor.state === 'running')
    await standStill(stage, random, { actor, meanwhile: () => stage.world.pause(ms) });
};

interface Standing {
  actor: Actor;
  where?: string;
  meanwhile: () => Promise<void>;
}

/** A process stands still while something happens without it. */
export async function standStill(
  { world, journal }: Stage,
  random: Random,
  { actor, where = '', meanwhile }: Standing,
): Promise<void> {
  const isMachine = random.chance(0.5);
  const since = world.elapsed;
  world.suspend(actor);
  journal.note(`${actor.name} is suspended${where}${isMachine ? ', with its machine' : ''}`);
  await meanwhile();
  if (isMachine) actor.stoodStill += world.elapsed - since;
  world.wake(actor);
  journal.note(`${actor.name} goes on`);
}

const points = {
  'lease of handoffs': 5,
  'lease of reservations': 3,
  'call to org': 2,
  'call to partner': 3,
};

/** Stands still at a moment that chance would seldom meet, for longer than its leases last. */
export const suspendAt: Action = async (stage, random) => {
  const { actor: picked } = random.pick(stage.replicas);
  const point = random.weighted(points);
  const ms = random.between(31_000, 60_000);
  if (picked.state !== 'running') return;
  const actor = await firstAt(stage, point, [picked]);
  if (actor?.state === 'running')
    await standStill(stage, random, {
      actor,
      where: ` at its ${point}`,
      meanwhile: () => stage.world.pause(ms),
    });
};

/** The first process that comes to a point, at once; undefined where none does in 10 s, or one is waited for already. */
export function firstAt(
  { world }: Stage,
  point: string,
  actors: readonly Actor[],
): Promise<Actor | undefined> {
  if (actors.some(({ trap }) => trap !== undefined)) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    let isOver = false;
    const end = (reached: Actor | undefined) => {
      if (isOver) return;
      isOver = true;
      for (const actor of actors) actor.trap = undefined;
      resolve(reached);
    };
    for (const actor of actors) actor.trap = { point, spring: () => end(actor) };
    world.schedule(10_000, () => end(undefined), { actor: undefined });
  });
}

/** Killed, and started again a little later. */
export const kill: Action = async (stage, random) => {
  const { world, journal, replicas } = stage;
  const running = replicas.filter(({ actor }) => actor.state !== 'dead');
  if (running.length < 2) return;
  const replica = random.pick(running);
  replica.kill();
  stage.kills += 1;
  journal.note(`${replica.actor.name} is killed`);
  await world.pause(random.between(500, 15_000));
  await replica.start(otherSettings(random));
};

/** Stopped as an update does, and started with other settings. */
export const restart: Action = async ({ world, journal, replicas }, random) => {
  const replica = random.pick(replicas);
  if (replica.actor.state !== 'running' || replicas.some(({ actor }) => actor.state === 'dead')) return;
  journal.note(`${replica.actor.name} is stopped`);
  const { actor } = replica;
  await Promise.race([replica.stop(), world.pause(30_000)]);
  if (replica.actor !== actor) return;
  replica.kill();
  await replica.start(otherSettings(random));
};

function otherSettings(random: Random): Record<string, string> {
  return {
    HANDOFF_WHEN_CRM_IS_UNAVAILABLE: random.pick(['refuse', 'accept']),
    COPY_ENABLED: random.pick(['true', 'false']),
    CRM_TIMEOUT_MS: random.pick(['2000', '5000', '10000']),
  };
}

/** One store fails for one replica for a while. */
export const cut: Action = async ({ world, replicas, journal }, random) => {
  const replica = random.pick(replicas);
  const store = random.weighted({ database: 3, cache: 2, secrets: 1 });
  const way = replica.ways[store];
  const kind = random.weighted({ cut: 2, lossy: 3, slow: 1 });
  way.reach = {
    isCut: kind === 'cut',
    lostPercent: kind === 'lossy' ? 20 : 0,
    slowMs: kind === 'slow' ? 800 : 2,
  };
  journal.note(`${replica.actor.name}: the ${store} is ${kind}`);
  await world.pause(random.between(200, 8000));
  way.reach = goodReach;
};

export const disturb: Action = async ({ world, replicas, weather, journal }, random) => {
  const replica = `replica ${random.whole(1, replicas.length)}`;
  const way = random.pick([
    `clients to ${replica}`,
    `${replica} to org`,
    `${replica} to partner`,
    `${replica} to receiver`,
  ]);
  const fate = random.pick([{ isRefused: true }, { isHung: true }, { delayMs: random.between(50, 3000) }]);
  weather.set(way, fate);
  journal.note(`${way}: ${JSON.stringify(fate)}`);
  await world.pause(random.between(200, 6000));
  weather.delete(way);
};

export const moveClock: Action = async ({ replicas, journal }, random) => {
  const { actor } = random.pick(replicas);
  const ms = random.pick([-60_000, -2000, 500, 3000, 20_000]);
  // One that stands still with its machine would never learn that it has: both of its clocks would hide it.
  if (actor.state !== 'running') return;
  actor.wallOffset += ms;
  journal.note(`the clock of ${actor.name} jumps by ${ms} ms`);
};

/** From now on what the intern hands off needs approval, or no more. */
export const requireApproval: Action = async (stage, random) => {
  const { client, credentials, journal } = stage;
  const approval = random.chance(0.6);
  const actions = ['read', 'write', 'delete'];
  const permissions = ['quotes', 'bookings'].map((resource) => ({
    resource,
    actions,
    ...(approval && { approval }),
  }));
  const path = `/v1/admin/consumers/${credentials.intern.id}`;
  const answer = await client.send({
    method: 'PATCH',
    path,
    as: 'boss',
    body: JSON.stringify({ permissions }),
  });
  journal.note(`the intern ${approval ? 'needs approval' : 'needs none'}: ${answer?.status}`);
};

/** Somebody gets another pair; the one before is over at once, or in an hour. The boss helps where the answer was lost. */
export const rotateKeys: Action = async (stage, random) => {
  const { client, credentials, journal, world } = stage;
  const as = random.pick(['desk', 'agent', 'intern'] as const);
  // With two at once nobody would know which pair is the later one.
  if (stage.rotating.has(as)) return;
  stage.rotating.add(as);
  const before = credentials[as];
  const graceHours = random.pick([0, 1]);
  const own = JSON.stringify({ grace_window_hours: graceHours });
  let answer = await client.send({ method: 'POST', path: '/v1/consumer/rotate', as, body: own });
  for (let tries = 0; answer?.status !== 200 && tries < 20; tries++) {
    await world.pause(random.between(200, 2000));
    const path = `/v1/admin/consumers/${before.id}/rotate`;
    const body = JSON.stringify({ graceWindowHours: graceHours });
    answer = await client.send({ method: 'POST', path, as: 'boss', body });
  }
  journal.note(`${as} gets another pair, with a grace of ${graceHours} h: ${answer?.status}`);
  stage.rotating.delete(as);
  if (answer?.status !== 200) return;
  const { apiKey, apiSecret } = JSON.parse(answer.text) as Credentials;
  credentials[as] = { id: before.id, apiKey, apiSecret };
  if (graceHours > 0) return;
  stage.retired.push({ as, pair: before });
  // Its tokens are over too.
  client.tokens.delete(as);
};

/** Somebody gets an access token, which some of its requests have from then on. */
export const fetchToken: Action = async ({ client, credentials, journal, world }, random) => {
  const as = random.pick(['desk', 'agent', 'intern'] as const);
  const { apiKey, apiSecret } = credentials[as];
  const form = { grant_type: 'client_credentials', client_id: apiKey, client_secret: apiSecret };
  const answer = await client.ask('/oauth/token', new URLSearchParams(form).toString());
  journal.note(`${as} asks for a token: ${answer?.status}`);
  if (answer?.status !== 200) return;
  const { access_token: token, expires_in: seconds } = JSON.parse(answer.text) as {
    access_token: string;
    expires_in: number;
  };
  // The clocks of replicas differ by minutes.
  client.tokens.set(as, { token, until: world.elapsed + (seconds * 1000) / 2 });
};

/** Records that people in the org may work with. */
function freeInOrg({ auditor, hasArrived }: Stage): Known[] {
  return auditor.records.freeInOrg().filter(({ id }) => hasArrived(id));
}

/** Somebody in the org deletes a record, or takes it out of the recycle bin. */
export const editOrg: Action = async (stage, random) => {
  const free = freeInOrg(stage);
  if (free.length === 0) return;
  const known = random.pick(free);
  const { id, creation, isDeleted } = known;
  known.isBusy = true;
  const move = isDeleted ? 'undelete' : 'delete';
  const path = `records/${objectOf(creation.collection)}/${move}?External_Id__c=${id}`;
  await stage.org.do('POST', path);
  stage.journal.note(`in the org: ${move} ${id}`);
  known.isDeleted = !isDeleted;
  known.editedAt = stage.world.elapsed;
  known.isBusy = false;
};

/** Somebody in the org deletes a record of which its client has not heard yet. */
export const deleteLost: Action = async (stage, random) => {
  const lost = stage.auditor.records.known.filter(
    ({ write, isDeleted }) =>
      write.isUncertain && !write.isOver && !isDeleted && write.request.as !== 'tester',
  );
  if (lost.length === 0) return;
  const known = random.pick(lost);
  const { collection, trip } = known.creation;
  const [row] = await stage.org.do<Row[]>('GET', `records/${objectOf(collection)}?Trip_Id__c=${trip}`);
  const id = String(row?.['External_Id__c']);
  if (row === undefined || known.write.isOver || !stage.hasArrived(id)) return;
  known.isDeleted = true;
  known.editedAt = stage.world.elapsed;
  await stage.org.do('POST', `records/${objectOf(collection)}/delete?External_Id__c=${id}`);
  stage.journal.note(`in the org: delete ${id}, of which nobody has heard`);
};

/** Somebody in the org gives a record another External ID. */
export const moveId: Action = async (stage, random) => {
  // Of an accepted one the old id still says how its delivery ended.
  const free = freeInOrg(stage).filter(({ isDeleted, write }) => !isDeleted && write.final?.status !== 202);
  if (free.length === 0) return;
  const known = random.pick(free);
  const { id, creation } = known;
  known.isBusy = true;
  const moved = random.uuid();
  const path = `records/${objectOf(creation.collection)}?External_Id__c=${id}`;
  await stage.org.do('PATCH', path, { External_Id__c: moved });
  stage.journal.note(`in the org: ${id} becomes ${moved}`);
  known.id = moved;
  known.editedAt = stage.world.elapsed;
  known.isBusy = false;
};

export const revokeTokens: Action = async ({ org, journal }) => {
  await org.do('POST', 'tokens/revoke');
  journal.note('the org revokes all tokens');
};

/** The org hides its user: each look at the service's health then makes metered calls, though the budget may be exhausted. */
export const hideUser: Action = async ({ org, client, world, replicas, journal }, random) => {
  const effect = { kind: 'error', status: 403, errorCode: 'FORBIDDEN', message: 'not for this app' };
  for (const operation of ['userinfo', 'identity'])
    await org.do('POST', 'faults', { match: { operation }, effect, times: 20 });
  journal.note('the org hides its user');
  for (let asked = 0; asked < 4; asked++) {
    await world.pause(random.between(500, 4000));
    await client.send({ method: 'GET', path: '/v1/healthz', as: 'boss' }, random.pick(replicas));
  }
};

export const failReceiver: Action = async ({ receiver, world, journal }, random) => {
  receiver.failsPercent = random.pick([10, 50, 100]);
  journal.note(`the receiver fails ${receiver.failsPercent} %`);
  await world.pause(random.between(500, 8000));
  receiver.failsPercent = 0;
};

/** A trigger in the org throws over some names, from the beginning to the end. */
export async function setTriggers({ org }: Stage): Promise<void> {
  const triggers = ['Quote__c', 'Booking__c'].map((object) => ({
    name: `Check${object}`,
    object,
    on: ['beforeInsert', 'beforeUpdate'],
    when: { field: 'Name__c', contains: poison },
    action: { kind: 'throw' },
  }));
  await org.do('PUT', 'automation', { triggers });
}

/** All faults are over. */
export async function heal(stage: Stage): Promise<void> {
  const { world, replicas, weather, org, partner, receiver } = stage;
  weather.clear();
  receiver.failsPercent = 0;
  await org.do('DELETE', 'faults');
  await partner.do('DELETE', 'faults');
  for (const replica of replicas) replica.heal();
  while (replicas.some(({ actor }) => actor.state === 'dead')) await world.pause(500);
}
