import { Random } from '../virtual/random.ts';
import * as faults from './faults.ts';
import { reportMember } from './members.ts';
import { limitRights } from './rights.ts';
import * as trips from './trips.ts';
import type { Action } from './writes.ts';
import * as writes from './writes.ts';

/** What happens in a step, by how often. */
const weights = {
  handOff: 12,
  handOffLater: 8,
  callTool: 4,
  handOffTrip: 5,
  handOffAgain: 5,
  handOffTwice: 2,
  deleteItem: 2,
  post: 8,
  crowd: 2,
  change: 9,
  remove: 6,
  reserve: 5,
  cancelReservation: 3,
  repeat: 6,
  read: 6,
  decide: 4,
  reportMember: 2,
  failOrg: 9,
  failPartner: 3,
  suspend: 4,
  kill: 2,
  restart: 0.6,
  cut: 3,
  disturb: 4,
  moveClock: 1,
  requireApproval: 2,
  limitRights: 1,
  rotateKeys: 1,
  fetchToken: 1,
  editOrg: 3,
  moveId: 1.5,
  revokeTokens: 0.5,
  failReceiver: 1.5,
};

export type StepName = keyof typeof weights;

const actions: Record<StepName, Action> = { ...writes, ...trips, ...faults, reportMember, limitRights };

/** One step of a run. It depends on its own seed alone, so that others can be left out. */
export interface Step {
  number: number;
  name: StepName;
  seed: number;
  /** Milliseconds after the step before. */
  afterMs: number;
}

/** The steps of a seed. */
export function planSteps(seed: number, count: number): Step[] {
  const random = new Random(seed ^ 0x5eed);
  return Array.from({ length: count }, (_, number) => ({
    number,
    name: random.weighted(weights),
    seed: random.whole(1, 2 ** 31),
    afterMs: random.chance(0.01) ? random.between(2000, 15_000) : random.between(1, 120),
  }));
}

export function actionOf({ name }: Step): Action {
  return actions[name];
}
