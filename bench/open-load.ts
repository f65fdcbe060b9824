import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { AnswerReader } from './answer-reader.ts';
import { type LoadResult, open, percentiles, withTimeLimit } from './load.ts';

export interface OpenLoad {
  /** One, or several that get the connections in turn. */
  url: string | readonly string[];
  /** Requests a second, on average. */
  perSecond: number;
  seconds: number;
  /** The whole next request as it goes over the wire; `n` counts up. See `httpRequest`. */
  next(n: number): string;
}

interface Connection {
  socket: Socket;
  /** When the request that it carries was due, by `performance.now()`; undefined while it carries none. */
  dueAt: number | undefined;
  isBroken: boolean;
}

/** Stands for the status of a request whose connection broke before its answer. */
const broken = 0;

/** Connections are opened beforehand for requests that take so long; more are opened as they are needed. */
const expectedSeconds = 0.25;

/**
 * Sends requests at random times that do not depend on the answers (a Poisson process), as many users do. An open loop:
 * a latency is counted from the time when its request was due, so that a stall counts for all that came meanwhile. A request
 * whose connection breaks counts as a failure of status 0. Throws where no connection can be made.
 */
export async function openLoad({ url, perSecond, seconds, next }: OpenLoad): Promise<LoadResult> {
  const samples: number[] = [];
  const failures: Record<number, number> = {};
  const idle: Connection[] = [];
  const all: Connection[] = [];
  let waiting = 0;
  let opened = 0;
  const done = Promise.withResolvers<void>();
  // Awaited when the last request is sent.
  done.promise.catch(() => undefined);

  let allSent = false;
  const finish = (connection: Connection, status: number) => {
    if (connection.dueAt === undefined) return;
    if (status >= 200 && status < 300) samples.push(performance.now() - connection.dueAt);
    else failures[status] = (failures[status] ?? 0) + 1;
    connection.dueAt = undefined;
    if (!connection.isBroken) idle.push(connection);
    waiting -= 1;
    if (allSent && waiting === 0) done.resolve();
  };
  const lose = (connection: Connection) => {
    connection.isBroken = true;
    if (connection.dueAt !== undefined) finish(connection, broken);
    else if (idle.includes(connection)) idle.splice(idle.indexOf(connection), 1);
  };
  const connect = async (): Promise<Connection> => {
    const urls = typeof url === 'string' ? [url] : url;
    const socket = await open(urls[opened++ % urls.length]);
    const connection: Connection = { socket, dueAt: undefined, isBroken: false };
    all.push(connection);
    readAnswers(connection, finish, lose);
    return connection;
  };
  const send = (connection: Connection, dueAt: number, request: string) => {
    connection.dueAt = dueAt;
    connection.socket.write(request, 'latin1');
  };

  const expected = Math.ceil(perSecond * expectedSeconds);
  idle.push(...(await Promise.all(Array.from({ length: expected }, connect))));
  const start = performance.now();
  let sent = 0;
  for await (const dueAt of arrivals(start, perSecond, seconds)) {
    waiting += 1;
    const request = next(sent++);
    // The one that was idle longest, before the service closes it.
    const connection = idle.shift();
    if (connection !== undefined) send(connection, dueAt, request);
    else connect().then((made) => send(made, dueAt, request), done.reject);
  }
  allSent = true;
  if (waiting === 0) done.resolve();
  try {
    await withTimeLimit(done.promise);
  } finally {
    for (const { socket } of all) socket.destroy();
  }
  const rate = samples.length / ((performance.now() - start) / 1000);
  return { rate, ...percentiles(samples), answers: samples.length, failures };
}

/** When each request is due, at that time; at least one, however short the time. */
async function* arrivals(start: number, perSecond: number, seconds: number): AsyncGenerator<number> {
  const end = start + seconds * 1000;
  for (let dueAt = start; dueAt < end; dueAt += (-Math.log(1 - Math.random()) * 1000) / perSecond) {
    const leftMs = dueAt - performance.now();
    if (leftMs > 0) await delay(leftMs);
    yield dueAt;
  }
}

function readAnswers(
  connection: Connection,
  onAnswer: (connection: Connection, status: number) => void,
  onEnd: (connection: Connection) => void,
): void {
  const { socket } = connection;
  const reader = new AnswerReader();
  socket.on('data', (bytes: Buffer) => {
    try {
      const status = reader.push(bytes);
      if (status !== undefined) onAnswer(connection, status);
    } catch {
      socket.destroy();
    }
  });
  socket.on('error', () => {});
  socket.on('close', () => onEnd(connection));
}
