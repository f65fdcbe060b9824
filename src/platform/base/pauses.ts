import { clearInterval, now, setInterval } from './chance.ts';

const tickMs = 200;
const longestMs = 1000;

/**
 * Counts the pauses of this process: it was stopped, its machine was suspended, or something kept it busy for over a second.
 * One is noticed by who asks first: after a pause, what waits in sockets is read before timers run.
 */
export class Pauses {
  #count = 0;
  #seenAt = now();
  readonly #timer = setInterval(() => void this.count, tickMs).unref();

  get count(): number {
    const time = now();
    if (time - this.#seenAt > longestMs) this.#count += 1;
    this.#seenAt = time;
    return this.#count;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
