import crypto from 'node:crypto';
import http from 'node:http';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import promises from 'node:timers/promises';
import { type Chance, replaceChance } from '../../src/platform/base/chance.ts';
import type { Network } from './network.ts';
import { embedded, inTurn } from './preload.ts';
import { Random } from './random.ts';
import type { World } from './world.ts';

type Callback = (...given: unknown[]) => void;

/** A timer of the virtual clock, with what libraries expect of one of Node's. */
class VirtualTimer {
  readonly #world: World;
  readonly #actor;
  readonly #run: () => void;
  readonly #ms: number;
  readonly #repeats: boolean;
  #cancel: (() => void) | undefined;

  constructor(world: World, run: () => void, ms: number, repeats: boolean) {
    this.#world = world;
    this.#actor = world.actor;
    this.#run = run;
    // As Node has it.
    this.#ms = ms >= 1 && ms < 2 ** 31 ? Math.trunc(ms) : 1;
    this.#repeats = repeats;
    if (!embedded.isAtWork) this.#start();
  }

  #start(): void {
    this.#cancel = this.#world.schedule(this.#ms, () => this.#fire(), { actor: this.#actor, isTimer: true });
  }

  #fire(): void {
    if (this.#cancel === undefined) return;
    this.#cancel = undefined;
    if (this.#repeats) this.#start();
    this.#run();
  }

  refresh(): this {
    this.#cancel?.();
    this.#start();
    return this;
  }

  close(): this {
    this.#cancel?.();
    this.#cancel = undefined;
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function clear(timer: unknown): void {
  if (timer instanceof VirtualTimer) timer.close();
}

/** Functions and objects of the process that the service, the simulators and their libraries use, as the world has them. */
function createVirtual(world: World) {
  const stock = new Random(1);
  const start =
    (repeats: boolean) =>
    (callback: Callback, ms?: number, ...given: unknown[]) =>
      new VirtualTimer(world, () => callback(...given), ms ?? 1, repeats) as unknown as NodeJS.Timeout;
  const setTimeout = start(false);
  const wallMs = () => Math.floor(world.wall + (world.actor?.wallOffset ?? 0));
  const sleep: Chance['sleep'] = (ms, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const give = () => reject(new DOMException('This operation was aborted', 'AbortError'));
      if (signal?.aborted) return give();
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', stop);
        resolve();
      }, ms);
      const stop = () => {
        clear(timer);
        give();
      };
      signal?.addEventListener('abort', stop, { once: true });
    });
  const setImmediate = (callback: Callback, ...given: unknown[]) => {
    const cancel = world.schedule(0, () => callback(...given), { actor: world.actor });
    return { cancel, unref() {}, ref() {} };
  };
  return {
    wallMs,
    monotonicMs: () => world.elapsed - (world.actor?.stoodStill ?? 0),
    now: () => world.actor?.now() ?? world.elapsed,
    setTimeout,
    clearTimeout: clear,
    setInterval: start(true),
    clearInterval: clear,
    setImmediate,
    clearImmediate: (immediate: { cancel?: () => void } | undefined) => immediate?.cancel?.(),
    sleep,
    nextTurn: () => new Promise<void>((resolve) => void setImmediate(() => resolve())),
    timeoutSignal: (ms: number) => {
      const controller = new AbortController();
      const late = () =>
        controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
      setTimeout(late, ms);
      return controller.signal;
    },
    randomFraction: () => world.random.fraction(),
    randomUUID: () => world.random.uuid(),
    // Stocks outlive a run: their size depends on those before it.
    randomBytes: (length: number) => (length > 256 ? stock : world.random).bytes(length),
  };
}

/** Reads the world's clock where it is made without an argument. */
function createDate(wallMs: () => number): DateConstructor {
  return class extends Date {
    constructor(...given: unknown[]) {
      super(...((given.length === 0 ? [wallMs()] : given) as []));
    }

    static override now(): number {
      return wallMs();
    }
  } as DateConstructor;
}

/** Signs and checks in turn, and the world waits for it: threads answer when they like. */
function createSubtle(real: typeof globalThis.crypto.subtle): typeof globalThis.crypto.subtle {
  return new Proxy(real, {
    get: (_, name) => {
      const method = real[name as keyof typeof real] as (...given: unknown[]) => Promise<unknown>;
      return (...given: unknown[]) => inTurn(() => method.apply(real, given));
    },
  });
}

type Replacement = [owner: object, names: Record<string, unknown>];

function replacementsBy(
  world: World,
  network: Network,
  virtual: ReturnType<typeof createVirtual>,
): Replacement[] {
  const loadOfUndici = createRequire(createRequire(import.meta.url).resolve('undici'));
  return [
    [globalThis, timersBy(virtual)],
    [Math, { random: virtual.randomFraction }],
    [performance, { now: virtual.monotonicMs }],
    [AbortSignal, { timeout: virtual.timeoutSignal }],
    [
      promises,
      {
        setTimeout: (ms: number, value: unknown, options: object) =>
          virtual.sleep(ms, options).then(() => value),
        setImmediate: virtual.nextTurn,
      },
    ],
    [
      crypto,
      {
        randomUUID: virtual.randomUUID,
        randomBytes: virtual.randomBytes,
        randomInt: (a: number, b?: number) =>
          b === undefined ? world.random.whole(0, a - 1) : world.random.whole(a, b - 1),
      },
    ],
    [
      globalThis.crypto,
      {
        subtle: createSubtle(globalThis.crypto.subtle),
        randomUUID: virtual.randomUUID,
        getRandomValues: (array: Uint8Array) => {
          array.set(world.random.bytes(array.byteLength).subarray(0, array.length));
          return array;
        },
      },
    ],
    // One timer serves all its clients, and would stop with the replica that started it.
    [
      loadOfUndici('./lib/util/timers.js') as object,
      {
        setTimeout: virtual.setTimeout,
        clearTimeout: virtual.clearTimeout,
        setFastTimeout: virtual.setTimeout,
        clearFastTimeout: virtual.clearTimeout,
      },
    ],
    [net, { connect: network.connect, createConnection: network.connect }],
    [net.Server.prototype, { listen: network.listenMethod() }],
    [http.ServerResponse.prototype, { writeHead: datedHead(virtual.wallMs) }],
  ];
}

function timersBy(virtual: ReturnType<typeof createVirtual>) {
  const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } = virtual;
  const Date = createDate(virtual.wallMs);
  return { Date, setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate };
}

/** Puts the world in place of what Node has of chance; returns what takes it away again. */
export function installWorld(world: World, network: Network): () => void {
  const virtual = createVirtual(world);
  const restore = replacementsBy(world, network, virtual).map(replace);
  syncBuiltinESMExports();
  const chance = replaceChance(virtual);
  return () => {
    replaceChance(chance);
    for (const undo of restore) undo();
    syncBuiltinESMExports();
  };
}

/** Node writes the Date header by a clock that nothing can replace. */
function datedHead(wallMs: () => number) {
  const real = http.ServerResponse.prototype.writeHead as (...given: unknown[]) => unknown;
  return function (this: http.ServerResponse, ...given: unknown[]) {
    if (!this.hasHeader('date') && this.sendDate) this.setHeader('date', new Date(wallMs()).toUTCString());
    return real.apply(this, given);
  };
}

function replace([owner, names]: Replacement): () => void {
  const before = Object.entries(names).map(
    ([name]) => [name, Object.getOwnPropertyDescriptor(owner, name)] as const,
  );
  for (const [name, value] of Object.entries(names)) {
    Object.defineProperty(owner, name, { value, configurable: true, writable: true });
  }
  return () => {
    for (const [name, descriptor] of before) {
      if (descriptor === undefined) Reflect.deleteProperty(owner, name);
      else Object.defineProperty(owner, name, descriptor);
    }
  };
}
