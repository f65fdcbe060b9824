import { AsyncLocalStorage } from 'node:async_hooks';
import { createClock } from '../../src/platform/base/chance.ts';
import { EventHeap } from './event-heap.ts';
import { threads } from './preload.ts';
import { Random } from './random.ts';

/** When virtual time begins: milliseconds since 1970. */
const beginning = Date.UTC(2027, 0, 4, 9);

/** The turn of the real event loop, whatever stands in for `setImmediate` meanwhile. */
const realTurn = globalThis.setImmediate;

/** A process in the simulated world: a replica, the org, the clients. */
export class Actor {
  readonly name: string;
  state: 'running' | 'suspended' | 'dead' = 'running';
  /** Milliseconds that its wall clock is ahead of the world's. */
  wallOffset = 0;
  /** For how long its monotonic clock stood still. */
  stoodStill = 0;
  /** Called when it is killed. */
  readonly onKilled = new Set<() => void>();
  /** Timers and messages that were due while it was suspended. */
  held: { isTimer: boolean; run: () => void }[] = [];
  readonly now: () => number;
  /** Springs once, where the actor comes to the point: `lease of handoffs`, `call to org`. */
  trap: { point: string; spring: () => void } | undefined;

  constructor(name: string, world: World) {
    this.name = name;
    this.now = createClock(
      () => world.elapsed - this.stoodStill,
      () => world.wall + this.wallOffset,
    );
  }

  reach(point: string): void {
    const { trap } = this;
    if (trap?.point !== point) return;
    this.trap = undefined;
    trap.spring();
  }
}

/** Time, and who lives in it: everything that happens is an event of the one queue, in an order that the seed decides. */
export class World {
  readonly random: Random;
  /** Milliseconds since the beginning. */
  elapsed = 0;
  /** Events that have happened. */
  count = 0;
  readonly #events = new EventHeap();
  readonly #current = new AsyncLocalStorage<Actor | undefined>();

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  /** Milliseconds since 1970, by the world's clock. */
  get wall(): number {
    return beginning + this.elapsed;
  }

  get actor(): Actor | undefined {
    return this.#current.getStore();
  }

  as<T>(actor: Actor | undefined, work: () => T): T {
    return this.#current.run(actor, work);
  }

  /** Does something later, as this actor, unless it is dead by then. Returns what calls it off. */
  schedule(
    ms: number,
    run: () => void,
    { actor, isTimer = false }: { actor: Actor | undefined; isTimer?: boolean },
  ): () => void {
    const event = this.#events.add(this.elapsed + Math.max(0, ms), () => this.#happen(run, actor, isTimer));
    return () => this.#events.remove(event);
  }

  /** Resolves as this actor after so many milliseconds; never, where it dies meanwhile. */
  pause(ms: number, actor: Actor | undefined = this.actor): Promise<void> {
    return new Promise((resolve) => this.schedule(ms, resolve, { actor }));
  }

  suspend(actor: Actor): void {
    if (actor.state === 'running') actor.state = 'suspended';
  }

  /** Goes on with what came meanwhile, sockets before timers or after them. */
  wake(actor: Actor): void {
    if (actor.state !== 'suspended') return;
    actor.state = 'running';
    const timersFirst = this.random.chance(0.5);
    const held = actor.held.splice(0);
    held.sort((a, b) => Number(b.isTimer === timersFirst) - Number(a.isTimer === timersFirst));
    for (const { run, isTimer } of held) this.schedule(0, run, { actor, isTimer });
  }

  kill(actor: Actor): void {
    actor.state = 'dead';
    actor.held = [];
    for (const react of actor.onKilled) react();
    actor.onKilled.clear();
  }

  /** Lets the world go on until the work is done. Throws where nothing happens any more, and after `mostEvents`. */
  async run(work: Promise<unknown>, mostEvents = 5_000_000): Promise<void> {
    let isDone = false;
    const end = work.finally(() => {
      isDone = true;
    });
    // It is thrown below, once the world stands still.
    end.catch(() => undefined);
    await this.#settle();
    const last = this.count + mostEvents;
    while (!isDone) {
      const event = this.#events.next();
      if (event === undefined) throw new Error('the simulation stands still: nothing is due');
      if (this.count >= last) throw new Error(`the simulation doesn't end: ${mostEvents} events`);
      this.count += 1;
      this.elapsed = Math.max(this.elapsed, event.at);
      event.run();
      await this.#settle();
    }
    await end;
  }

  #happen(run: () => void, actor: Actor | undefined, isTimer: boolean): void {
    if (actor?.state === 'dead') return;
    if (actor?.state === 'suspended') return void actor.held.push({ isTimer, run });
    this.#current.run(actor, run);
  }

  /** Until all that follows from an event at once has happened. */
  async #settle(): Promise<void> {
    do await new Promise<void>((resolve) => void realTurn(resolve));
    while (threads.busy > 0);
  }
}
