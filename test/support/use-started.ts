import { after, before } from 'node:test';

/**
 * What `start` returns, for the tests of a file or a suite: empty until they begin. What was asked for first stops first.
 * Where a hook `before` uses it, both belong into a `describe`: outside of one, hooks don't wait for each other.
 */
export function useStarted<T extends object>(start: () => Promise<T>, stop: (started: T) => unknown): T {
  const started = {} as T;
  before(async () => void Object.assign(started, await start()));
  after(() => stop(started));
  return started;
}
