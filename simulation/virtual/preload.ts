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
  /** Where a thread that packs or unpacks a chunk leaves how much room is left, once it is done. */
  chunks: new Set<Uint32Array>(),
  get areBusy(): boolean {
    for (const state of this.chunks) if (state[0] !== atWork) this.chunks.delete(state);
    return this.promises > 0 || this.chunks.size > 0;
  },
};

/** More room than any buffer has. */
const atWork = 2 ** 32 - 1;

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

interface Packer {
  _handle: { write(...given: unknown[]): unknown; onerror(...given: unknown[]): unknown };
  _writeState: Uint32Array;
}

/** Notes each chunk that another thread works on. */
function withCount<Options>(create: (options?: Options) => object) {
  return (options?: Options) => {
    const stream = create(options);
    const { _handle: handle, _writeState: state } = stream as Packer;
    const { write, onerror } = handle;
    handle.write = (...given) => {
      state[0] = atWork;
      threads.chunks.add(state);
      return write.apply(handle, given);
    };
    const fail = (...given: unknown[]) => {
      threads.chunks.delete(state);
      return onerror.apply(handle, given);
    };
    Object.assign(handle, { onerror: fail });
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
