import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from './eventually.ts';

/** Clients that send one request after another until they are stopped. */
export interface Load {
  /** What failed so far, in words. */
  readonly failures: readonly string[];
  /** Resolves when so many further requests have succeeded; those that were under way before do not count. */
  successes(count: number): Promise<void>;
  /** Resolves when all clients have ended. */
  stop(): Promise<void>;
}

/** `send` is given the number of its client and throws where a request failed. */
export function startLoad(clients: number, send: (client: number) => Promise<void>): Load {
  const failures: string[] = [];
  let stopped = false;
  let sent = 0;
  /** Numbers of the requests that succeeded. */
  const succeeded: number[] = [];
  const run = async (client: number) => {
    while (!stopped) {
      const number = sent++;
      try {
        await send(client);
        succeeded.push(number);
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
        // Not a busy loop where everything fails at once.
        await delay(10);
      }
    }
  };
  const running = Promise.all(Array.from({ length: clients }, (_, client) => run(client)));
  return {
    failures,
    successes: async (count) => {
      const from = sent;
      await eventually(() =>
        assert.ok(stopped || succeeded.filter((number) => number >= from).length >= count, failures.at(-1)),
      );
    },
    stop: async () => {
      stopped = true;
      await running;
    },
  };
}
