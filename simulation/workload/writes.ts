import { codeOf, titleOf, type Write } from '../auditor/answers.ts';
import {
  type Answer,
  type Collection,
  type Purpose,
  poison,
  type Request,
  type Row,
  type Values,
} from '../auditor/facts.ts';
import { idsOf, type Known, objectOf } from '../auditor/records.ts';
import type { KnownReservation } from '../auditor/reservations.ts';
import { Replica } from '../replica.ts';
import type { ConsumerName, Stage } from '../stage.ts';
import type { Random } from '../virtual/random.ts';

/** Step of a client by itself. `random` is the step's own. */
export type Action = (stage: Stage, random: Random) => Promise<void>;

const slots = 22;
const daysAhead = 25;
const firstDay = Date.UTC(2027, 0, 6, 12);

/** Tries of one client before it gives up for now. */
const tries = 6;
/** Enough to wait until the leases of others are over. */
const patientTries = 30;

function patienceOf({ world, theme }: Stage): number {
  return world.random.chance(theme === 'everything' ? 0.1 : 0.5) ? patientTries : tries;
}

interface Patience {
  /** Tries. */
  most?: number;
  /** Any, where it is undefined. */
  at?: Replica | undefined;
}

/** Sends a write until its answer is final, with pauses. Whether it is. */
export async function carryOut(
  stage: Stage,
  write: Write,
  { most = patienceOf(stage), at: replica }: Patience = {},
): Promise<Answer | undefined> {
  const { client, world, auditor, journal } = stage;
  for (let at = 0; at < most && !write.isOver; at++) {
    // A program that gives up too early sends it once more while it is still under way.
    const other = world.random.chance(0.08) ? client.send(write.request, replica) : undefined;
    const answer = await client.send(write.request, replica);
    if (other !== undefined) auditor.answers.heard(write, await other);
    journal.note(`${shortOf(write)}: ${briefOf(answer)}`);
    auditor.answers.heard(write, answer);
    if (isAwaiting(answer)) await lookBehind(stage, write);
    if (!write.isOver) await world.pause(world.random.between(20, at < 2 ? 400 : 4000));
  }
  return write.final;
}

function isAwaiting(answer: Answer | undefined): boolean {
  return answer?.status === 202 && answer.text.includes('awaiting_approval');
}

/** Hand-offs that wait for approval are not in the org. */
async function lookBehind({ org, auditor }: Stage, { purpose, request }: Write): Promise<void> {
  if (purpose.kind !== 'creation') return;
  const rows = await org.do<Row[]>(
    'GET',
    `records/${objectOf(purpose.collection)}?Trip_Id__c=${purpose.trip}`,
  );
  if (rows.length > 0)
    auditor.violations.push(`${titleOf({ request })} waits for approval, but ${idsOf(rows)} is live`);
}

function shortOf({ request, purpose }: Write): string {
  const { method, path, key, as, headers, tool } = request;
  const prefer = headers?.['prefer'] === undefined ? '' : ` (${headers['prefer']})`;
  if (tool !== undefined) return `${as} calls ${tool} [${key?.slice(0, 4)}]`;
  return `${as} ${method} ${path}${prefer}${itemsOf(purpose)} [${key?.slice(0, 4)}]`;
}

function itemsOf(purpose: Purpose): string {
  if (purpose.kind !== 'trip') return '';
  const items = purpose.asked.map(
    ({ item, isUpdate }) => `${item.mark.slice(0, 4)}${isUpdate ? ' to update' : ''}`,
  );
  return ` of trip ${purpose.trip.slice(0, 4)}, items ${items.join(', ')}`;
}

/** Status, and what was made or why not. */
function briefOf(answer: Answer | undefined): string {
  if (answer === undefined) return 'no answer';
  const { status, text, headers } = answer;
  if (status >= 400) return `${status} ${codeOf(text)}`;
  const replayed = headers['idempotent-replayed'] === 'true' ? ' (replayed)' : '';
  const { items } = JSON.parse(text || '{}') as { items?: { status: string }[] };
  if (items !== undefined) return `${status} ${items.map((item) => item.status).join(', ')}${replayed}`;
  return `${status} ${/"(?:external_)?id":"([0-9a-f-]{36})"/.exec(text)?.[1] ?? ''}${replayed}`;
}

function valuesOf(random: Random) {
  return { name: `Hotel ${random.whole(1, 1_000_000)}`, source: `supplier ${random.whole(1, 99)}` };
}

/** Over some names a trigger in the org throws. */
function orPoisoned(values: Values, as: string, random: Random): Values {
  const isPoisoned = random.chance(0.06) && as !== 'tester';
  return isPoisoned ? { ...values, name: `${poison} ${values.name}` } : values;
}

export async function create(
  stage: Stage,
  random: Random,
  as: ConsumerName,
  { headers, way = 'handoff' }: { headers?: Record<string, string>; way?: 'handoff' | 'tool' | 'post' } = {},
) {
  const collection: Collection = random.chance(0.5) ? 'quotes' : 'bookings';
  const values = orPoisoned(valuesOf(random), as, random);
  const trip = random.uuid();
  const about = { trip_id: trip, member_id: random.pick(stage.members) };
  const record = { ...values, details: { night: random.whole(1, 9) } };
  const type = collection.slice(0, -1);
  const request: Request = {
    method: 'POST',
    as,
    key: random.uuid(),
    ...(headers && { headers }),
    path: way === 'post' ? `/v1/${collection}` : '/api/v1/handoff',
    body: JSON.stringify(way === 'post' ? { ...about, ...record } : { type, ...about, result: record }),
    ...(way === 'tool' && { tool: 'hand_off' }),
  };
  const creation: Extract<Purpose, { kind: 'creation' }> = { kind: 'creation', collection, trip, values };
  const write = stage.auditor.answers.begin(request, creation);
  const known = stage.auditor.records.begin(write, creation);
  learn(known, await carryOut(stage, write));
  await readBack(stage, random, known);
}

/** `final`: the last answer about the creation. */
export function learn(known: Known, final: Answer | undefined): void {
  if (final === undefined) return;
  const { id, external_id: handedOff } = JSON.parse(final.text || '{}') as {
    id?: string;
    external_id?: string;
  };
  if (final.status === 201 || final.status === 202) known.id = handedOff ?? id;
  // Of an accepted one nobody knows yet whether it exists.
  known.isBusy = final.status !== 201;
}

const anyone = ['desk', 'agent', 'intern', 'tester'] as const;

export const handOff: Action = (stage, random) => create(stage, random, random.pick(anyone));

export const handOffLater: Action = (stage, random) =>
  create(stage, random, random.pick(anyone), {
    headers: { prefer: random.pick(['respond-async', 'respond-async, wait=2']) },
  });

export const post: Action = (stage, random) =>
  create(stage, random, random.pick(['desk', 'agent', 'tester']), { way: 'post' });

/** An agent's call of a tool: the intent is the key. */
export const callTool: Action = (stage, random) =>
  create(stage, random, random.pick(anyone), { way: 'tool' });

/** Many at once, which share calls. */
export const crowd: Action = async (stage, random) => {
  const all = Array.from({ length: random.whole(4, 10) }, () => handOff(stage, random));
  await Promise.all(all);
};

function pathOf({ creation, id }: Known): string {
  return `/v1/${creation.collection}/${id}`;
}

export const change: Action = async (stage, random) => {
  const known = pickFree(stage, random);
  if (known === undefined) return;
  known.isBusy = true;
  const { as } = known.write.request;
  const values = orPoisoned(valuesOf(random), as, random);
  const purpose: Purpose = { kind: 'change', record: known.id ?? '', values };
  const isConditional = random.chance(stage.theme === 'lostAnswers' ? 0.8 : 0.3);
  const tag = isConditional ? await tagOf(stage, known) : undefined;
  const request: Request = {
    method: 'PATCH',
    path: pathOf(known),
    as,
    key: random.uuid(),
    body: JSON.stringify(values),
    ...(tag !== undefined && { headers: { 'if-match': tag } }),
  };
  const write = stage.auditor.answers.begin(request, purpose);
  changes.set(write, known);
  stage.auditor.records.settle(known, write, await carryOut(stage, write));
  await readBack(stage, random, known);
};

/** Only the client that has the record writes it: the tag stays right until its own write. */
async function tagOf({ client }: Stage, known: Known): Promise<string | undefined> {
  const { as } = known.write.request;
  const answer = await client.send({ method: 'GET', path: pathOf(known), as });
  const tag = answer?.headers['etag'];
  return answer?.status === 200 && typeof tag === 'string' ? tag : undefined;
}

export const remove: Action = async (stage, random) => {
  const known = pickFree(stage, random);
  if (known === undefined) return;
  known.isBusy = true;
  const request: Request = {
    method: 'DELETE',
    path: pathOf(known),
    as: known.write.request.as,
    key: random.uuid(),
  };
  const write = stage.auditor.answers.begin(request, { kind: 'deletion', record: known.id ?? '' });
  changes.set(write, known);
  stage.auditor.records.settle(known, write, await carryOut(stage, write));
  await readBack(stage, random, known);
};

/** The record that a change or a deletion is about. */
export const changes = new WeakMap<Write, Known>();

function pickFree({ auditor }: Stage, random: Random): Known | undefined {
  const free = auditor.records.free().filter(({ write }) => write.request.as !== 'intern');
  return free.length === 0 ? undefined : random.pick(free);
}

export const reserve: Action = async (stage, random) => {
  const known = beginReservation(stage, random);
  settleReservation(known, await carryOut(stage, known.write));
};

export function beginReservation(stage: Stage, random: Random): KnownReservation {
  const { auditor } = stage;
  const trip = random.uuid();
  // Each has a slot of its own, so that the partner's books say whose a table is.
  const nth = auditor.reservations.known.length;
  const startSec =
    firstDay / 1000 + (nth % daysAhead) * 86_400 + (Math.floor(nth / daysAhead) % slots) * 1800;
  const body = {
    trip_id: trip,
    member_id: random.pick(stage.members),
    name: 'Casa Olivo',
    dining: {
      merchant_id: 'casa-olivo-7',
      service_id: 'table',
      start_at: new Date(startSec * 1000).toISOString(),
      party_size: 2,
      guest: { given_name: 'Inés', family_name: 'Marín', email: 'ines@example.com', phone: '+12025550143' },
    },
  };
  const request: Request = {
    method: 'POST',
    path: '/v1/reservations',
    as: 'desk',
    key: random.uuid(),
    body: JSON.stringify(body),
  };
  const write = auditor.answers.begin(request, { kind: 'reservation', trip, startSec });
  return auditor.reservations.begin(write, trip, startSec);
}

/** The last word about a reservation that was asked for. */
export function settleReservation(known: KnownReservation, final: Answer | undefined): void {
  if (final?.status === 201) known.id = (JSON.parse(final.text) as { id: string }).id;
  known.isBusy = final?.status !== 201;
}

export const cancelReservation: Action = async (stage, random) => {
  const free = stage.auditor.reservations.known.filter(({ isBusy }) => !isBusy);
  if (free.length > 0) await cancel(stage, random, random.pick(free));
};

export async function cancel(
  stage: Stage,
  random: Random,
  known: KnownReservation,
  patience?: Patience,
): Promise<void> {
  known.isBusy = true;
  const request: Request = {
    method: 'DELETE',
    path: `/v1/reservations/${known.id}`,
    as: 'desk',
    key: random.uuid(),
  };
  const write = stage.auditor.answers.begin(request, { kind: 'cancellation', trip: known.trip });
  const final = await carryOut(stage, write, patience);
  if (final?.status === 204) known.isCancelled = true;
}

/** A client that has lost its memory sends a write again that it had sent before. */
export const repeat: Action = async (stage, random) => {
  const { writes } = stage.auditor.answers;
  const done = writes.filter(({ final }) => final !== undefined);
  if (done.length === 0) return;
  const write = random.pick(done);
  const answer = await stage.client.send(write.request);
  stage.journal.note(`${shortOf(write)} again: ${answer?.status}`);
  stage.auditor.answers.heard(write, answer);
};

/** For looks at the org that take their time, in milliseconds. */
const marginMs = 30_000;

export const read: Action = async (stage, random) => {
  const free = stage.auditor.records.free();
  if (free.length > 0) await readOne(stage, random, random.pick(free), random.chance(0.5) ? 30 : undefined);
};

/** Acknowledged writes are shown at once, also to those who take old answers. */
async function readBack(stage: Stage, random: Random, known: Known): Promise<void> {
  if (known.id !== undefined && !known.isBusy && random.chance(0.3))
    await readOne(stage, random, known, random.pick([30, 300]));
}

/** `maxAge`: seconds that the answer may be old; undefined: it comes from the org. */
async function readOne(
  { auditor, client, world, replicas }: Stage,
  random: Random,
  known: Known,
  maxAge: number | undefined,
): Promise<void> {
  const list = `/v1/${known.creation.collection}?trip_id=${known.creation.trip}`;
  const request: Request = {
    method: 'GET',
    path: random.chance(0.5) ? pathOf(known) : list,
    as: known.write.request.as,
    ...(maxAge !== undefined && { headers: { 'cache-control': `max-age=${maxAge}` } }),
  };
  const before = { ...known };
  const answer = await client.send(request);
  // While only some keep a copy, which must not last, what the others write reaches it by the looks at the org.
  const changedAt = Math.max(known.editedAt, Replica.copiesAgreeSince(replicas) ?? Number.POSITIVE_INFINITY);
  const mayBeOld = maxAge !== undefined && world.elapsed < changedAt + maxAge * 1000 + marginMs;
  if (!mayBeOld) auditor.records.checkRead(before, known, request, answer);
}

/** Asks what has become of an accepted hand-off, and works with its record from then on. */
export const look: Action = async (stage, random) => {
  const accepted = stage.auditor.records.known.filter(
    ({ id, write, isBusy }) => isBusy && id !== undefined && write.final?.status === 202,
  );
  if (accepted.length === 0) return;
  const known = random.pick(accepted);
  if (await isCreated(stage, known)) known.isBusy = false;
};

/** Whether an accepted hand-off is said to have its record. */
export async function isCreated({ client }: Stage, { id, write }: Known, at?: Replica): Promise<boolean> {
  const { as } = write.request;
  const answer = await client.send({ method: 'GET', path: `/v1/handoffs/${id}`, as }, at);
  return answer?.status === 200 && (JSON.parse(answer.text) as { status: string }).status === 'created';
}

/** Withdraws an accepted hand-off, or the boss decides about one. */
export const decide: Action = async (stage, random) => {
  const { records, trips } = stage.auditor;
  const waiting = [
    ...records.known
      .filter(({ write }) => write.final?.status === 202)
      .map(({ id, write }) => ({ id, as: write.request.as })),
    ...trips.waiting(),
  ];
  if (waiting.length === 0) return;
  const { id, as } = random.pick(waiting);
  const path = `/v1/handoffs/${id}`;
  const way = random.weighted({ approve: 4, reject: 2, withdraw: 2, retry: 1 });
  const request: Request =
    way === 'withdraw'
      ? { method: 'DELETE', path, as }
      : {
          method: 'POST',
          path: `${path}/${way}`,
          as: 'boss',
          ...(way === 'reject' && { body: JSON.stringify({ reason: 'too expensive' }) }),
        };
  const answer = await stage.client.send(request);
  stage.journal.note(
    `${request.as} ${request.method} ${request.path}: ${answer?.status} ${answer === undefined ? '' : codeOf(answer.text)}`,
  );
};
