import { Pool } from 'undici';

export interface LoadResult {
  /** Answers a second. */
  rate: number;
  /** Milliseconds, by percentile. */
  p50: number;
  p99: number;
  /** Answers by status. */
  statuses: Record<number, number>;
}

export interface Load {
  url: string;
  clients: number;
  seconds: number;
  /** The next request; `n` counts up. */
  next(n: number): { method: 'GET' | 'POST'; path: string; headers: Record<string, string>; body?: string };
}

/** Sends requests from so many clients at once, each as soon as its last is answered, for so many seconds. */
export async function load({ url, clients, seconds, next }: Load): Promise<LoadResult> {
  const pool = new Pool(url, { connections: clients, pipelining: 1 });
  const times: number[] = [];
  const statuses: Record<number, number> = {};
  const start = performance.now();
  const end = start + seconds * 1000;
  let n = 0;
  const client = async () => {
    while (performance.now() < end) {
      const sentAt = performance.now();
      const { statusCode, body } = await pool.request(next(n++));
      await body.dump();
      times.push(performance.now() - sentAt);
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const took = (performance.now() - start) / 1000;
  await pool.close();
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
  return { rate: times.length / took, p50: at(0.5), p99: at(0.99), statuses };
}
