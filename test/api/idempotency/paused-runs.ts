import type { KyselyPlugin } from 'kysely';
import type { KeyedRequest, StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import type { Claim, Ledger } from '../../../src/api/idempotency/ledger.ts';
import { runClaimed } from '../../support/run-claimed.ts';

/** What becomes of the result of a statement that was carried out. */
export type Delivery = 'ok' | 'lost';
/** What becomes of a statement. */
export type Sending = 'ok' | 'unsent';

export type Settled =
  | { answer: StoredAnswer; replayed: boolean; error?: never }
  | { error: unknown; answer?: never };

/**
 * Runs of the ledger that stop after each statement, until the test lets the one that it chooses go on: all orders in
 * which statements of different requests can meet come about. A run that is never let go on is an owner that died.
 */
export class PausedRuns {
  #active: Pause | undefined;

  /** To be put around the database; between two statements only one run is under way. */
  readonly plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (this.#active?.takeUnsent()) throw new Error('the statement was not sent');
      return node;
    },
    transformResult: async ({ result }) => {
      if ((await this.#active?.pause()) === 'lost') throw new Error('the result was lost');
      return result;
    },
  };

  /** Starts a run and returns it when its first statement is done, or it has ended. */
  async start(
    ledger: Ledger,
    request: KeyedRequest,
    execute: (claim: Claim) => Promise<StoredAnswer>,
    next: Sending,
  ): Promise<PausedRun> {
    const pause = new Pause();
    const run = new PausedRun(pause, (active) => {
      this.#active = active;
    });
    await run.begin(() => runClaimed(ledger, request, execute), next);
    return run;
  }
}

class Pause {
  #gate = Promise.withResolvers<Delivery>();
  #reached = Promise.withResolvers<void>();
  #unsent = false;

  get reached(): Promise<void> {
    return this.#reached.promise;
  }

  pause(): Promise<Delivery> {
    this.#gate = Promise.withResolvers();
    this.#reached.resolve();
    return this.#gate.promise;
  }

  takeUnsent(): boolean {
    const unsent = this.#unsent;
    this.#unsent = false;
    return unsent;
  }

  /** Lets the run go on; `next` is what becomes of its next statement, should there be one. */
  letGo(delivered: Delivery, next: Sending): void {
    this.#reached = Promise.withResolvers();
    this.#unsent = next === 'unsent';
    this.#gate.resolve(delivered);
  }
}

/** One request under way. */
export class PausedRun {
  settled: Settled | undefined;
  readonly #pause: Pause;
  readonly #activate: (pause: Pause) => void;
  #ended: Promise<void> = Promise.resolve();

  constructor(pause: Pause, activate: (pause: Pause) => void) {
    this.#pause = pause;
    this.#activate = activate;
  }

  async begin(work: () => ReturnType<typeof runClaimed>, next: Sending): Promise<void> {
    this.#activate(this.#pause);
    this.#pause.letGo('ok', next);
    this.#ended = work().then(
      (result) => void (this.settled = result),
      (error: unknown) => void (this.settled = { error }),
    );
    await Promise.race([this.#pause.reached, this.#ended]);
  }

  /** Hands the result of its last statement over, or not; returns when the next is done or the run has ended. */
  async proceed(delivered: Delivery, next: Sending): Promise<void> {
    this.#activate(this.#pause);
    this.#pause.letGo(delivered, next);
    await Promise.race([this.#pause.reached, this.#ended]);
  }
}
