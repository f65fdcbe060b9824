import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import zlib from 'node:zlib';

/*
 * What Node does in other threads ends when it likes. Here it is done at once, or one after the other while virtual time
 * waits. To be imported before the service, whose modules keep some of these functions.
 */

/** Work in other threads. */
export const threads = { busy: 0, last: Promise.resolve() as Promise<unknown> };

/**
 * The embedded database has timers of its own, for statistics and time limits. They would outlive a run: those that it starts
 * never fire.
 */
export const embedded = { isAtWork: false };

/** Begins once all such work before it has ended; until its own promise is settled, virtual time stands still. */
export async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  threads.busy += 1;
  const own = threads.last.then(work, work);
  threads.last = own;
  try {
    return await own;
  } finally {
    threads.busy -= 1;
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
  _handle: {
    write(...given: unknown[]): unknown;
    writeSync(...given: unknown[]): unknown;
    onerror(...given: unknown[]): unknown;
    answer(): unknown;
  };
}

// What a stream calls with its packed chunk is known to nobody but the handle.
const { _handle: example } = zlib.createGzip() as unknown as Packer;
const handles = Object.getPrototypeOf(example) as { init(...given: unknown[]): unknown };
const { init } = handles;
handles.init = function (this: Packer['_handle'], ...given) {
  this.answer = given.find((one) => typeof one === 'function') as () => unknown;
  return init.apply(this, given);
};

/** Packs or unpacks each chunk of a stream at once. */
function withoutThread<Options>(create: (options?: Options) => object) {
  return (options?: Options) => {
    const stream = create(options);
    const { _handle: handle } = stream as Packer;
    const { onerror } = handle;
    let hasFailed = false;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- no event: the packer calls it
    handle.onerror = (...given) => {
      hasFailed = true;
      return onerror.apply(handle, given);
    };
    handle.write = (...given) => {
      handle.writeSync(...given);
      if (!hasFailed) process.nextTick(() => handle.answer());
    };
    return stream;
  };
}

const replacements = {
  gzip: withCallback(zlib.gzipSync),
  gunzip: withCallback(zlib.gunzipSync),
  deflate: withCallback(zlib.deflateSync),
  inflate: withCallback(zlib.inflateSync),
  createGzip: withoutThread(zlib.createGzip),
  createGunzip: withoutThread(zlib.createGunzip),
};
for (const [name, value] of Object.entries(replacements)) {
  Object.defineProperty(zlib, name, { value, enumerable: true, configurable: true });
}

for (const name of ['readFile', 'readdir', 'stat', 'access'] as const) {
  const real = fs[name] as (...given: unknown[]) => Promise<unknown>;
  Object.assign(fs, { [name]: (...given: unknown[]) => inTurn(() => real(...given)) });
}

syncBuiltinESMExports();
