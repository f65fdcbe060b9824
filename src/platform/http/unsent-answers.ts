import type { ServerResponse } from 'node:http';
import { monotonicMs } from '../base/chance.ts';

/** Up to this many milliseconds without progress are usual for a client that reads: only the bytes count. */
const usualPauseMs = 1000;

interface Share {
  caller: string;
  bytes: number;
  answers: Map<ServerResponse, { bytes: number; at: number }>;
}

/**
 * Counts the bytes of answers that clients have not read. Beyond the limit, connections are closed until it holds again: of
 * each caller the connection without progress for longest is considered, and the one whose caller's bytes, multiplied by
 * its milliseconds without progress, are most is closed. So a client that does not read delays no other, and a client that
 * pauses is not closed because another caller fills the memory and reads a little now and then.
 */
export class UnsentAnswers {
  readonly #most: number;
  readonly #cutOff: (answer: ServerResponse) => void;
  readonly #shares = new Map<string, Share>();
  #bytes = 0;

  constructor(most: number, cutOff: (answer: ServerResponse) => void) {
    this.#most = most;
    this.#cutOff = cutOff;
  }

  /**
   * Notes that an answer has made progress, and how many bytes are in memory for it. `caller`: the same for each call about
   * this answer.
   */
  note(answer: ServerResponse, caller: string, bytes: number): void {
    const share = this.#shares.get(caller);
    if (share !== undefined) this.#remove(answer, share);
    if (bytes === 0) return;
    this.#add(answer, caller, bytes);
    let isOver = this.#bytes > this.#most;
    while (isOver) isOver = this.#cutOffOne(answer) && this.#bytes > this.#most;
  }

  #add(answer: ServerResponse, caller: string, bytes: number): void {
    const share = this.#shares.get(caller) ?? { caller, bytes: 0, answers: new Map() };
    this.#shares.set(caller, share);
    share.answers.set(answer, { bytes, at: monotonicMs() });
    share.bytes += bytes;
    this.#bytes += bytes;
  }

  #remove(answer: ServerResponse, share: Share): void {
    const bytes = share.answers.get(answer)?.bytes ?? 0;
    share.answers.delete(answer);
    share.bytes -= bytes;
    this.#bytes -= bytes;
    if (share.answers.size === 0) this.#shares.delete(share.caller);
  }

  /** Cuts off one answer; whether there was one. Never `latest`, which has just made progress. */
  #cutOffOne(latest: ServerResponse): boolean {
    const now = monotonicMs();
    let found: { answer: ServerResponse; share: Share } | undefined;
    let most = 0;
    for (const share of this.#shares.values()) {
      for (const [answer, { at }] of share.answers) {
        const weight = share.bytes * Math.max(usualPauseMs, now - at);
        if (answer !== latest && weight > most) [found, most] = [{ answer, share }, weight];
        // The other answers of this caller have made progress since.
        break;
      }
    }
    if (found === undefined) return false;
    this.#remove(found.answer, found.share);
    this.#cutOff(found.answer);
    return true;
  }
}
