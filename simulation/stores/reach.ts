import type { Actor, World } from '../virtual/world.ts';

/** How a store answers one replica. */
export interface Reach {
  /** Every call fails at once. */
  isCut: boolean;
  /** Answers in a hundred that are lost after the store has done its work. */
  lostPercent: number;
  /** Milliseconds of a call at most. */
  slowMs: number;
}

export const goodReach: Reach = { isCut: false, lostPercent: 0, slowMs: 2 };

/**
 * The way of one replica to a store that all share. A call of a replica that is dead never ends, one that is suspended
 * hears the answer when it wakes.
 */
export class Way {
  readonly world: World;
  readonly actor: Actor;
  reach: Reach = goodReach;

  constructor(world: World, actor: Actor) {
    this.world = world;
    this.actor = actor;
  }

  /** Does work at the store. `failure` is what a lost connection looks like. */
  async call<T>(work: () => Promise<T>, failure: () => Error): Promise<T> {
    const { world, actor } = this;
    if (actor.state === 'dead') return new Promise(() => {});
    const { random } = world;
    const ms = random.between(0.2, this.reach.slowMs);
    if (this.reach.isCut) {
      await this.#wait(ms);
      throw failure();
    }
    const isLost = random.chance(this.reach.lostPercent / 100);
    // The request is on its way: whatever becomes of its sender now, the store gets it.
    const outcome = await new Promise<Outcome<T>>((resolve) => {
      world.schedule(ms / 2, () => settle(work, resolve), { actor: undefined });
    });
    await this.#wait(ms / 2);
    if (isLost) throw failure();
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  /** Never ends for the dead. */
  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.world.schedule(ms, resolve, { actor: this.actor }));
  }
}

type Outcome<T> = { value: T } | { error: unknown };

function settle<T>(work: () => Promise<T>, resolve: (outcome: Outcome<T>) => void): void {
  work().then(
    (value) => resolve({ value }),
    (error: unknown) => resolve({ error }),
  );
}
