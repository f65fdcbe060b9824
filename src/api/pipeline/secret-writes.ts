import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { hasOneOf } from '../../identity/consumers/permissions.ts';
import type { Caller } from '../../identity/consumers/scopes.ts';
import { modeOf } from '../../platform/base/call.ts';
import { clearTimeout, setTimeout } from '../../platform/base/chance.ts';
import { FairQueue } from '../../platform/base/concurrency.ts';
import { Problem } from '../../platform/base/problem.ts';
import { hungUp } from './body.ts';

/** Requests that write secrets at once; of one caller one, so that they do not get into each other's way. */
const mostAtOnce = 4;
const mostWaiting = 100;
/** A request has 25 s; the rest is for the write. */
const longestWaitMs = 20_000;

interface Waiting {
  caller: string;
  start(): void;
  refuse(problem: Problem): void;
}

/**
 * The requests of a process that write secrets, in turn: those of administrators first, then callers alternate. A write takes
 * the secrets manager long, and whoever sends many must not keep others from ending a stolen key.
 */
export class SecretWrites {
  readonly #administrators = new FairQueue<Waiting>();
  readonly #others = new FairQueue<Waiting>();
  readonly #busy = new Set<string>();

  /** Throws `secrets_unavailable` where the turn does not come, and what the work does. */
  async run<T>(
    { consumer, raw }: Pick<FastifyRequest, 'consumer' | 'raw'>,
    work: () => Promise<T>,
  ): Promise<T> {
    const { id } = consumer as Caller;
    await this.#turnOf(consumer as Caller, raw.socket);
    try {
      if (raw.socket.destroyed) throw hungUp();
      return await work();
    } finally {
      this.#busy.delete(id);
      this.#startNext();
    }
  }

  #turnOf(caller: Caller, socket: Socket): Promise<void> {
    const queue = isAdministrator(caller) ? this.#administrators : this.#others;
    this.#makeRoom(queue, caller.id);
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        clearTimeout(timeout);
        socket.off('close', onClose);
        queue.delete(caller.id, waiting);
        end();
      };
      const waiting: Waiting = {
        caller: caller.id,
        start: () => settle(resolve),
        refuse: (problem) => settle(() => reject(problem)),
      };
      const onClose = () => waiting.refuse(hungUp());
      const timeout = setTimeout(
        () => waiting.refuse(busy('This change waited too long for its turn.')),
        longestWaitMs,
      );
      socket.once('close', onClose);
      queue.add(caller.id, waiting);
      if (socket.destroyed) onClose();
      else this.#startNext();
    });
  }

  /** Where all places are taken, the last one of the caller who has most is given up, administrators' only to administrators. */
  #makeRoom(queue: FairQueue<Waiting>, caller: string): void {
    if (this.#administrators.size + this.#others.size < mostWaiting) return;
    const full = `${mostWaiting} changes to secrets are already waiting.`;
    const isAhead = queue === this.#administrators && this.#others.size > 0;
    const crowd = isAhead ? this.#others : queue;
    const [largest, count] = [...crowd.counts()].reduce(
      (most, one) => (one[1] > most[1] ? one : most),
      ['', 0],
    );
    if (!isAhead && count <= queue.countOf(caller) + 1) throw busy(full);
    [...crowd].findLast((waiting) => waiting.caller === largest)?.refuse(busy(full));
  }

  #startNext(): void {
    const mayStart = (caller: string) => !this.#busy.has(caller);
    while (this.#busy.size < mostAtOnce) {
      const next = this.#administrators.next(undefined, mayStart) ?? this.#others.next(undefined, mayStart);
      if (next === undefined) return;
      this.#busy.add(next.caller);
      next.start();
    }
  }
}

function isAdministrator(caller: Caller): boolean {
  const manages = (['write', 'delete'] as const).map((action) => ({
    resource: 'consumers' as const,
    action,
  }));
  return modeOf(caller.id) === 'live' && hasOneOf(caller, manages);
}

function busy(why: string): Problem {
  return new Problem('secrets_unavailable', `${why} Nothing was changed.`, { retryAfter: 5 });
}
