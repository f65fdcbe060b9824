import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { eventually } from '../../support/eventually.ts';
import type { MemorySystems, Outcome } from './memory-systems.ts';

/** A call on its way to a system, or its answer on the way back. */
interface Held {
  call: string;
  stage: 'going' | 'coming';
  go(outcome: Outcome): void;
}

/**
 * Runs that stop at each call to a system, on the way there and on the way back, until a test continues them; so that the
 * test decides in which order they do, and which of them die.
 */
export class InterleavedRuns {
  readonly #held: Held[] = [];
  #running = 0;

  constructor(systems: MemorySystems) {
    systems.outcomeOf = (call) => this.#hold(call, 'going');
    systems.deliver = async (call) => void (await this.#hold(call, 'coming'));
  }

  #hold(call: string, stage: Held['stage']): Promise<Outcome> {
    return new Promise((go) => this.#held.push({ call, stage, go }));
  }

  /** Starts a run, and returns when all runs have stopped. */
  async start(run: () => Promise<unknown>, onEnd: (result: unknown) => void): Promise<void> {
    this.#running += 1;
    void this.#watch(run(), onEnd);
    await this.#settle();
  }

  async #watch(run: Promise<unknown>, onEnd: (result: unknown) => void): Promise<void> {
    const result = await run;
    this.#running -= 1;
    onEnd(result);
  }

  /** Lets one held call, or its answer, go on. */
  async letGo(index: number, outcome: Outcome): Promise<void> {
    const [held] = this.#held.length > 0 ? this.#held.splice(index % this.#held.length, 1) : [];
    held?.go(held.stage === 'going' ? possibleOutcome(held.call, outcome) : 'works');
    await this.#settle();
  }

  /** One run dies where it is: its call is lost, or its answer is. */
  kill(index: number): void {
    if (this.#held.length === 0) return;
    this.#held.splice(index % this.#held.length, 1);
    this.#running -= 1;
  }

  /**
   * A call that is under way so long that a lease runs out has come to its system by then, or never will; its answer
   * may come at any time.
   */
  async arrive(outcome: 'works' | 'callLost'): Promise<void> {
    for (const held of this.#held.filter(({ stage }) => stage === 'going')) {
      this.#held.splice(this.#held.indexOf(held), 1);
      held.go(outcome);
    }
    await this.#settle();
  }

  async finish(): Promise<void> {
    while (this.#held.length > 0) await this.letGo(0, 'works');
  }

  /** Resolves when each run has ended or is held. */
  async #settle(): Promise<void> {
    await eventually(() => assert.ok(this.#held.length >= this.#running), { pause: turn });
  }
}

/** Reads are never refused; they fail instead. */
function possibleOutcome(call: string, outcome: Outcome): Outcome {
  return outcome === 'refused' && (call.startsWith('crm.find') || call === 'dining.retrieve')
    ? 'fails'
    : outcome;
}
