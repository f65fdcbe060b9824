import { type Known, objectOf } from '../auditor/records.ts';
import type { Replica } from '../replica.ts';
import type { Stage } from '../stage.ts';
import type { Actor } from '../virtual/world.ts';
import { firstAt, standStill } from './faults.ts';
import {
  type Action,
  beginReservation,
  cancel,
  carryOut,
  create,
  isCreated,
  settleReservation,
} from './writes.ts';

/*
 * A process stands still with work that it has leased. Another one finishes the work, and somebody undoes what came of it, before the
 * first one goes on: whatever it still does then can be seen.
 */

/** Milliseconds: nobody takes leased work over before. */
const leaseMs = 30_000;
const tries = 40;
const crowdSize = 8;

export const takeOverHandoff: Action = async (stage, random) => {
  const actors = await allRunning(stage);
  if (actors === undefined) return;
  const leasing = firstAt(stage, 'lease of handoffs', actors);
  await create(stage, random, random.pick(['desk', 'agent']), { headers: { prefer: 'respond-async' } });
  const actor = await leasing;
  if (actor?.state !== 'running') return;
  await standStill(stage, random, {
    actor,
    where: ' with hand-offs that it has leased',
    meanwhile: async () => {
      await stage.world.pause(leaseMs);
      await deleteMade(stage, { among: waiting(stage), most: 1, withinMs: 60_000 });
    },
  });
};

/** A process stands still that has just invited others to share its call. What they send to it is done without it, and deleted. */
export const takeOverCall: Action = async (stage, random) => {
  const { hasBudget, auditor } = stage;
  const actors = hasBudget ? await allRunning(stage) : undefined;
  if (actors === undefined) return;
  const inviting = firstAt(stage, 'announcement of invitation', actors);
  const before = auditor.records.known.length;
  const handOffOne = () => create(stage, random, random.pick(['desk', 'agent']));
  const crowd = Promise.all(Array.from({ length: crowdSize }, handOffOne));
  const among = auditor.records.known.slice(before);
  const actor = await inviting;
  if (actor?.state === 'running')
    await standStill(stage, random, {
      actor,
      where: ' when it has invited others to its call',
      meanwhile: () => deleteMade(stage, { among, most: crowdSize, withinMs: 180_000 }),
    });
  await crowd;
};

/** Somebody in the org deletes what was handed off, as soon as it is there. */
async function deleteMade(
  stage: Stage,
  { among, most, withinMs }: { among: readonly Known[]; most: number; withinMs: number },
): Promise<void> {
  const { world, org, journal } = stage;
  const end = world.elapsed + withinMs;
  for (let deleted = 0; deleted < most && world.elapsed < end; ) {
    await world.pause(1000);
    for (const known of among) {
      if (known.isDeleted || !(await isMade(stage, known))) continue;
      if (!stage.hasArrived(known.id)) continue;
      const { isBusy } = known;
      Object.assign(known, { isDeleted: true, isBusy: true });
      const object = objectOf(known.creation.collection);
      await org.do('POST', `records/${object}/delete?External_Id__c=${known.id}`);
      journal.note(`in the org: delete ${known.id}, which was handed off`);
      known.editedAt = world.elapsed;
      known.isBusy = isBusy;
      deleted += 1;
    }
  }
}

function waiting({ auditor }: Stage): Known[] {
  return auditor.records.known.filter(
    ({ isBusy, write: { final, request } }) => isBusy && final?.status === 202 && request.as !== 'tester',
  );
}

async function isMade(stage: Stage, known: Known): Promise<boolean> {
  const { id, isBusy, write } = known;
  if (id === undefined || !isBusy) return id !== undefined;
  return write.final?.status === 202 && isCreated(stage, known, other(stage));
}

export const takeOverReservation: Action = async (stage, random) => {
  const { org, journal } = stage;
  const actors = await allRunning(stage);
  if (actors === undefined) return;
  // The table is booked, and its booking can't get its status yet.
  const effect = { kind: random.pick(['hang', 'reset', 'lockRow']) };
  await org.do('POST', 'faults', { match: { object: 'Booking__c', method: 'PATCH' }, effect, times: 12 });
  journal.note(`the org: ${effect.kind} for changes of bookings`);
  const known = beginReservation(stage, random);
  settleReservation(known, await carryOut(stage, known.write, { most: 1 }));
  const actor = known.isBusy ? await firstAt(stage, 'lease of reservations', actors) : undefined;
  const heal = () => org.do<void>('DELETE', 'faults');
  if (actor?.state !== 'running') return heal();
  await standStill(stage, random, {
    actor,
    where: ' with a reservation that it has leased',
    meanwhile: async () => {
      await heal();
      const at = other(stage);
      settleReservation(known, await carryOut(stage, known.write, { most: tries, at }));
      if (!known.isBusy) await cancel(stage, random, known, { most: tries, at });
    },
  });
};

/** Only where no other one stands still can the others take over. Undefined where one does for long. */
async function allRunning({ world, replicas }: Stage): Promise<readonly Actor[] | undefined> {
  for (let waited = 0; waited < 60; waited++) {
    const actors = replicas.map(({ actor }) => actor);
    if (actors.every(({ state, trap }) => state === 'running' && trap === undefined)) return actors;
    await world.pause(1000);
  }
  return undefined;
}

function other({ replicas }: Stage): Replica | undefined {
  return replicas.find(({ actor }) => actor.state === 'running');
}
