import { Session } from 'node:inspector/promises';
import { isMainThread, type MessagePort, parentPort, Worker, workerData } from 'node:worker_threads';

interface Work {
  /** URL of a file. */
  module: string;
  /** Of the function. */
  name: string;
  given: unknown[];
}

/**
 * How often functions, branches and loops run in a call of a module's function, those of libraries included: no matter how
 * fast the machine is. `module` is the URL of a file.
 */
export async function countWork(module: string, name: string, ...given: unknown[]): Promise<number> {
  // V8 counts in what is compiled from now on: a thread has compiled nothing yet.
  const work: Work = { module, name, given };
  const worker = new Worker(new URL(import.meta.url), { workerData: work });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  worker.once('message', resolve).once('error', reject);
  try {
    return await promise;
  } finally {
    await worker.terminate();
  }
}

async function count({ module, name, given }: Work): Promise<number> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const { [name]: call } = (await import(module)) as Record<string, (...given: unknown[]) => unknown>;
  // Without what importing it took.
  await session.post('Profiler.takePreciseCoverage');
  await call?.(...given);
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const ranges = result.flatMap(({ functions }) => functions.flatMap((one) => one.ranges));
  return ranges.reduce((sum, range) => sum + range.count, 0);
}

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port has none
if (!isMainThread) (parentPort as MessagePort).postMessage(await count(workerData as Work));
