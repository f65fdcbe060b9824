import { objectOf } from '../auditor/records.ts';
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
/** How long the others may take to finish it. */
const finishMs = 60_000;
const tries = 40;

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
      await deleteDelivered(stage);
    },
  });
};

/** Somebody in the org deletes what was accepted, as soon as the first of it is delivered. */
async function deleteDelivered(stage: Stage): Promise<void> {
  const { world, auditor, org, journal } = stage;
  const waiting = auditor.records.known.filter(
    ({ isBusy, isDeleted, write: { final, request } }) =>
      isBusy && !isDeleted && final?.status === 202 && request.as !== 'tester',
  );
  const end = world.elapsed + finishMs;
  for (let deleted = 0; deleted === 0 && world.elapsed < end; ) {
    await world.pause(1000);
    for (const known of waiting) {
      if (known.isDeleted || !(await isCreated(stage, known, other(stage)))) continue;
      const object = objectOf(known.creation.collection);
      known.isDeleted = true;
      await org.do('POST', `records/${object}/delete?External_Id__c=${known.id}`);
      journal.note(`in the org: delete ${known.id}, which was delivered`);
      deleted += 1;
    }
  }
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
