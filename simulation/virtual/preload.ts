import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import zlib from 'node:zlib';

/*
 * What Node does in other threads ends when it likes. Here it is done at once, or counted, so that virtual time waits
 * for it. To be imported before the service, whose modules keep some of these functions.
 */

/** Work in other threads. */
export const threads = {
  promises: 0,
  streams: new Set<{ buffer: unknown }>(),
  get areBusy(): boolean {
    for (const handle of this.streams) {
      if (handle.buffer) return true;
      this.streams.delete(handle);
    }
    return this.promises > 0;
  },
};

/**
 * The embedded database has timers of its own, for statistics and time limits. They would outlive a run: those that it starts
 * never fire.
 */
export const embedded = { isAtWork: false };

/** Counts the work until its promise is settled. */
export async function counted<T>(work: Promise<T>): Promise<T> {
  threads.promises += 1;
  try {
    return await work;
  } finally {
    threads.promises -= 1;
  }
}

type Packing = (bytes: Buffer, options?: zlib.ZlibOptions) => Buffer;
type Callback = (error: unknown, bytes?: Buffer) => void;

/** The form with a callback of a function that packs or unpacks at once. */
function withCallback(work: Packing) {
  return (bytes: Buffer, ...given: unknown[]) => {
    const callback = given.pop() as Callback;
    let result: Parameters<Callback>;
    try {
      result = [null, work(bytes, given[0] as zlib.ZlibOptions)];
    } catch (error) {
      result = [error];
    }
    process.nextTick(() => callback(...result));
  };
}

type Handle = { buffer: unknown; write(...given: unknown[]): unknown };

/** Notes each chunk that another thread works on. */
function withCount<Options>(create: (options?: Options) => object) {
  return (options?: Options) => {
    const stream = create(options);
    const handle = (stream as { _handle: Handle })._handle;
    const write = handle.write.bind(handle);
    handle.write = (...given) => {
      threads.streams.add(handle);
      return write(...given);
    };
    return stream;
  };
}

const replacements = {
  gzip: withCallback(zlib.gzipSync),
  gunzip: withCallback(zlib.gunzipSync),
  deflate: withCallback(zlib.deflateSync),
  inflate: withCallback(zlib.inflateSync),
  createGzip: withCount(zlib.createGzip),
  createGunzip: withCount(zlib.createGunzip),
};
for (const [name, value] of Object.entries(replacements)) {
  Object.defineProperty(zlib, name, { value, enumerable: true, configurable: true });
}

for (const name of ['readFile', 'readdir', 'stat', 'access'] as const) {
  const real = fs[name] as (...given: unknown[]) => Promise<unknown>;
  Object.assign(fs, { [name]: (...given: unknown[]) => counted(real(...given)) });
}

syncBuiltinESMExports();
