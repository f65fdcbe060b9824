import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { AnswerReader } from './answer-reader.ts';

export interface Load {
  /** Where the clients connect, in turn. */
  urls: string[];
  clients: number;
  seconds: number;
  /** The whole next request as it goes over the wire; `n` counts up. See `httpRequest`. */
  next(n: number): string;
}

export interface LoadResult {
  /**
   * Answers of the 200s, a second, from the first request to the last answer: where an answer takes seconds, those
   * that happen to fall into a shorter time say little.
   */
  rate: number;
  /** Milliseconds to the end of the answer, of all answers of the 200s: since the request was sent, or was due. */
  p50: number;
  p99: number;
  /** All answers of the 200s. */
  answers: number;
  /** All other answers, by status. */
  failures: Record<number, number>;
}

/** How long the last answers may take after the last request. */
const answerWaitMs = 40_000;

/**
 * Sends requests from so many clients at once, each on a connection of its own and as soon as its last request is
 * answered, for so many seconds. A closed loop: a slow service is sent less, so percentiles leave out the requests
 * that would have come meanwhile (coordinated omission). Lean, since it shares the machine with what it measures.
 * Throws where a connection breaks.
 */
export async function load({ urls, clients, seconds, next }: Load): Promise<LoadResult> {
  const samples: number[] = [];
  const failures: Record<number, number> = {};
  let n = 0;
  const sockets = await Promise.all(Array.from({ length: clients }, (_, i) => open(urls[i % urls.length])));
  const start = performance.now();
  const end = start + seconds * 1000;
  const client = (socket: Socket) =>
    new Promise<void>((resolve, reject) => {
      const reader = new AnswerReader();
      let sentAt = 0;
      const send = () => {
        sentAt = performance.now();
        socket.write(next(n++), 'latin1');
      };
      socket.on('data', (bytes: Buffer) => {
        let status: number | undefined;
        try {
          status = reader.push(bytes);
        } catch (error) {
          reject(error);
        }
        if (status === undefined) return;
        const now = performance.now();
        if (status >= 200 && status < 300) samples.push(now - sentAt);
        else failures[status] = (failures[status] ?? 0) + 1;
        if (now < end) send();
        else resolve();
      });
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('a connection ended before its answer')));
      send();
    });
  try {
    await withTimeLimit(Promise.all(sockets.map(client)), seconds);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  const rate = samples.length / ((performance.now() - start) / 1000);
  return { rate, ...percentiles(samples), answers: samples.length, failures };
}

/** Throws where the work is not done so long after the `seconds` of the load. */
export async function withTimeLimit(work: Promise<unknown>, seconds = 0): Promise<void> {
  const ended = new AbortController();
  const late = delay(seconds * 1000 + answerWaitMs, undefined, { signal: ended.signal }).then(() => {
    throw new Error(`not all requests were answered ${answerWaitMs / 1000} s after the last of them`);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    late.catch(() => {});
    ended.abort();
  }
}

/** A request as bytes in Latin-1; for bodies in ASCII. */
export function httpRequest(
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string,
): string {
  const all = { host: 'bench', ...headers, ...(body !== undefined && { 'content-length': body.length }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`;
}

/** A new connection. Throws where there is none to be had. */
export function open(url = ''): Promise<Socket> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

export function percentiles(samples: number[]): { p50: number; p99: number } {
  const sorted = Float64Array.from(samples).sort();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}
