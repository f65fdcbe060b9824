import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import type { Part } from './part.ts';
import { gatewayRead, gatewayWrite } from './requests.ts';
import { interleave, loadCells, type Measured, measure, rates } from './rounds.ts';
import { ratio, spreadOfPairs } from './spread.ts';

const clients = 64;
const counts = [1, 2, 4];

/** How throughput grows with replicas on one PostgreSQL and one Redis. */
export const replicas: Part = async ({ harness, rounds, seconds }) => {
  const upstream = await harness.startUpstream();
  const shared = {
    ...(await harness.newDatabase()),
    ...(await harness.newRedis()),
    SECRETS_DIR: `${harness.processes.folder}/secrets`,
  };
  const start = () => harness.startGateway({ crm: upstream, env: shared });
  // The first one makes the database and the consumers.
  const first = await start();
  const others = Array.from({ length: Math.max(...counts) - 1 }, start);
  const gateways = [first, ...(await Promise.all(others))];
  const quoteIds = Array.from({ length: 1000 }, () => randomUUID());
  const requests = { reads: gatewayRead(first, quoteIds), 'keyed writes': gatewayWrite(first, randomUUID()) };
  const runs: Record<string, () => Promise<Measured>> = {};
  for (const [name, next] of Object.entries(requests)) {
    for (const count of counts) {
      const used = gateways.slice(0, count);
      const programs = Object.fromEntries(used.map(({ program }, i) => [`replica ${i + 1}`, program]));
      const load = { urls: used.map(({ url }) => url), clients, seconds, next };
      runs[`${name} ${count}`] = () => measure(load, { upstream: upstream.program, ...programs });
    }
  }
  const results = await interleave(rounds, runs);
  const of = (name: string, count: number) => results[`${name} ${count}`] ?? [];
  const rows = Object.keys(requests).flatMap((name) =>
    counts.map((count) => ({
      requests: name,
      replicas: count,
      'over one': spreadOfPairs(rates(of(name, count)), rates(of(name, 1)), ratio),
      ...loadCells(of(name, count)),
    })),
  );
  const notes = [
    `${clients} clients in all; the CRM answers at once; one PostgreSQL, one Redis.`,
    `Replicas, stores, CRM and clients share ${availableParallelism()} cores: growth ends where these are busy.`,
  ];
  return { tables: [{ title: 'Replicas', notes, rows }], figures: {} };
};
