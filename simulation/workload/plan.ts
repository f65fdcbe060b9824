import { Random } from '../virtual/random.ts';
import * as faults from './faults.ts';
import { reportMember } from './members.ts';
import { limitRights } from './rights.ts';
import { renewSecret, subscribe, unsubscribe } from './subscriptions.ts';
import * as takeovers from './takeovers.ts';
import { type StepName, themeOf, themes, weights } from './themes.ts';
import * as trips from './trips.ts';
import type { Action } from './writes.ts';
import * as writes from './writes.ts';

const actions: Record<StepName, Action> = {
  ...writes,
  ...trips,
  ...takeovers,
  ...faults,
  reportMember,
  limitRights,
  subscribe,
  unsubscribe,
  renewSecret,
};

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
  const theme = themes[themeOf(seed)];
  const themed = { ...weights, ...theme.weights };
  return Array.from({ length: count }, (_, number) => ({
    number,
    name: random.weighted(themed),
    seed: random.whole(1, 2 ** 31),
    afterMs: random.chance(theme.pausePercent / 100) ? random.between(2000, 15_000) : random.between(1, 120),
  }));
}

export function actionOf({ name }: Step): Action {
  return actions[name];
}
