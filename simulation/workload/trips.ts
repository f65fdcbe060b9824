import type { Write } from '../auditor/answers.ts';
import { type Answer, type Asked, type Item, poison, type Request } from '../auditor/facts.ts';
import { objectOf } from '../auditor/records.ts';
import type { Trip } from '../auditor/trips.ts';
import type { Stage } from '../stage.ts';
import type { Random } from '../virtual/random.ts';
import { type Action, carryOut } from './writes.ts';

const mostItems = 5;

/** Several results of one trip at once, all or none, or each for itself. */
export const handOffTrip: Action = async (stage, random) => {
  const trip = stage.auditor.trips.begin({
    id: random.uuid(),
    member: random.pick(stage.members),
    as: random.pick(['desk', 'agent', 'intern']),
  });
  const asked = Array.from({ length: mostItems }, () => newItem(trip, random));
  await handOffItems(stage, random, trip, asked);
};

/** Some of the items again under another key, as they were or with other content, and sometimes one more. */
export const handOffAgain: Action = async (stage, random) => {
  const trip = pickTrip(stage, random);
  if (trip === undefined) return;
  trip.isBusy = true;
  const known = trip.items.filter(({ reference }) => reference !== undefined);
  const asked = known.filter(() => random.chance(0.6)).map((item) => askAgain(item, random));
  if (asked.length === 0 || random.chance(0.3)) asked.push(newItem(trip, random));
  await handOffItems(stage, random, trip, asked);
};

/** Two clients hand the same items off at the same time. */
export const handOffTwice: Action = async (stage, random) => {
  const trip = pickTrip(stage, random);
  if (trip === undefined) return;
  trip.isBusy = true;
  const known = trip.items.filter(({ reference }) => reference !== undefined);
  const asked = [...known.map((item) => askAgain(item, random)), newItem(trip, random, true)];
  const writes = [0, 1].map(() => beginWrite(stage, random, trip, asked));
  await Promise.all(
    writes.map(async (write) => settleTrip(stage, write, await carryOut(stage, write), false)),
  );
};

function pickTrip({ auditor }: Stage, random: Random): Trip | undefined {
  const free = auditor.trips.free();
  return free.length === 0 ? undefined : random.pick(free);
}

function contentOf(random: Random, isPoisoned: boolean) {
  const name = `Hotel ${random.whole(1, 1_000_000)}`;
  return { name: isPoisoned ? `${poison} ${name}` : name, night: random.whole(1, 9) };
}

function newItem(trip: Trip, random: Random, isReferenced = random.chance(0.7)): Asked {
  const mark = random.uuid();
  const item: Item = {
    mark,
    type: random.pick(['quote', 'booking']),
    source: `supplier ${random.whole(1, 9)}`,
    reference: isReferenced ? `offer ${mark}` : undefined,
    id: undefined,
    contents: [],
    waiting: undefined,
    isMade: false,
    isDeleted: false,
    isDoubtful: false,
  };
  trip.items.push(item);
  return { item, content: contentOf(random, random.chance(0.04)), isUpdate: false };
}

function askAgain(item: Item, random: Random): Asked {
  const isUpdate = random.chance(0.5);
  return { item, content: contentOf(random, false), isUpdate };
}

async function handOffItems(stage: Stage, random: Random, trip: Trip, asked: readonly Asked[]) {
  const write = beginWrite(stage, random, trip, asked);
  settleTrip(stage, write, await carryOut(stage, write));
}

function beginWrite({ auditor }: Stage, random: Random, trip: Trip, asked: readonly Asked[]): Write {
  const isAsync = random.chance(0.25);
  const atomic = random.pick(isAsync ? [undefined, false] : [true, undefined, false]);
  const [only] = asked;
  const isAlone = asked.length === 1 && only !== undefined && random.chance(0.7);
  const about = { trip_id: trip.id, member_id: trip.member };
  const items = asked.map(bodyOf);
  const request: Request = {
    method: 'POST',
    path: isAlone ? '/api/v1/handoff' : '/api/v1/handoffs',
    as: trip.as,
    key: random.uuid(),
    ...(isAsync && { headers: { prefer: random.pick(['respond-async', 'respond-async, wait=2']) } }),
    body: JSON.stringify(isAlone ? { ...about, ...items[0] } : { ...about, atomic, items }),
  };
  const write = auditor.answers.begin(request, { kind: 'trip', trip: trip.id, asked });
  write.isAtomic = !isAlone && atomic === true;
  return write;
}

function bodyOf({ item: { mark, type, source, reference }, content, isUpdate }: Asked) {
  const { name, night } = content;
  return {
    type,
    result: { name, source, details: { night, item: mark } },
    ...(reference !== undefined && { reference, on_repeat: isUpdate ? 'update' : 'return' }),
  };
}

/** Without an answer the trip stays busy. */
export function settleTrip(
  { auditor }: Stage,
  write: Write,
  final: Answer | undefined,
  isAlone = true,
): void {
  const { purpose } = write;
  if (purpose.kind !== 'trip') return;
  const answer = final ?? write.refusal;
  if (answer === undefined) return;
  auditor.trips.settle(write, purpose.asked, answer, isAlone);
  const trip = auditor.trips.known.find(({ id }) => id === purpose.trip);
  const isOver = auditor.answers.writes.every(
    (one) => one.purpose.kind !== 'trip' || one.purpose.trip !== purpose.trip || one.isOver,
  );
  if (trip !== undefined && isOver) trip.isBusy = false;
}

/** Somebody in the org deletes the record of an item. */
export const deleteItem: Action = async (stage, random) => {
  const trip = pickTrip(stage, random);
  const made = trip?.items.filter(
    ({ id, isMade, isDeleted, waiting }) =>
      isMade && !isDeleted && waiting === undefined && stage.hasArrived(id),
  );
  if (trip === undefined || made === undefined || made.length === 0) return;
  const item = random.pick(made);
  trip.isBusy = true;
  const collection = item.type === 'quote' ? 'quotes' : 'bookings';
  await stage.org.do('POST', `records/${objectOf(collection)}/delete?External_Id__c=${item.id}`);
  stage.journal.note(`in the org: delete the item ${item.mark}, ${item.id}`);
  item.isDeleted = true;
  trip.isBusy = false;
};
