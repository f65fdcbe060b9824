import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { openBudget } from '../test/support/call-budget.ts';
import type { Gateway } from './harness.ts';
import { ledgerNote } from './ledger.ts';
import { httpRequest, type LoadResult } from './load.ts';
import { openLoad } from './open-load.ts';
import { fillOrg, insertRecords, meteredCalls, setPace } from './org-control.ts';
import type { Part } from './part.ts';
import { gatewayWrite, quoteRow } from './requests.ts';
import { type Spread, spreadOf } from './spread.ts';

const dailyCalls = 100_000;
/** Of each kind. */
const perSecond = { read: 20, create: 10, change: 10 };
const latencyMs = 150;
const records = 2000;
/** A measurement takes so many times `--seconds`, since a call comes every 0.86 s. */
const longer = 8;
const fromCrm = { 'cache-control': 'no-cache' };

interface Run {
  calls: number;
  seconds: number;
  loads: Record<'read' | 'create' | 'change', LoadResult[]>;
}

/** What requests of several kinds share: reads of three resources, creations and changes of two, on a budget used up before. */
export const budgetMix: Part = async ({ harness, rounds, seconds }) => {
  const org = await harness.startOrg();
  const { memberId, quoteIds } = await fillOrg(org, records);
  const bookingIds = Array.from({ length: records }, () => randomUUID() as string);
  await insertRecords(
    org,
    'Booking__c',
    bookingIds.map((id) => quoteRow(memberId, id)),
  );
  await setPace(org, { latencyMs, maxConcurrent: 20 });
  const redis = await harness.newRedis();
  const secrets = `${harness.processes.folder}/budget-secrets`;
  const gateway = await harness.startGateway({
    crm: org,
    env: {
      ...{ ...(await harness.newDatabase()), ...redis, SECRETS_DIR: secrets },
      CRM_DAILY_CALL_BUDGET: String(dailyCalls),
    },
  });
  const shared = await openBudget(redis['REDIS_URL'] as string, secrets, dailyCalls);
  const runs: Run[] = [];
  for (let round = 0; round < rounds; round++) {
    await shared.drain();
    // The gateway gives back what it holds and does not need.
    await delay(3000);
    await shared.drain();
    const before = await meteredCalls(org);
    const startedAt = performance.now();
    const loads = await loadOf(gateway, { memberId, quoteIds, bookingIds }, seconds * longer);
    const took = (performance.now() - startedAt) / 1000;
    runs.push({ calls: (await meteredCalls(org)) - before, seconds: took, loads });
  }
  await shared.close();
  const notes = [...notesOf(), await ledgerNote(gateway, org)];
  return {
    tables: [{ title: 'Several kinds of requests on a budget', notes, rows: [rowOf(runs)] }],
    figures: { mixedRequests: requestsACall(runs) },
  };
};

async function loadOf(
  gateway: Gateway,
  { memberId, quoteIds, bookingIds }: { memberId: string; quoteIds: string[]; bookingIds: string[] },
  seconds: number,
): Promise<Run['loads']> {
  const paths = [quoteIds.map((id) => `/v1/quotes/${id}`), bookingIds.map((id) => `/v1/bookings/${id}`)];
  const load = (rate: number, next: (n: number) => string) =>
    openLoad({ url: gateway.url, perSecond: rate, seconds, next });
  const reads = [...paths, [`/v1/members/${memberId}`]].map((all) =>
    load(perSecond.read, (n) => httpRequest('GET', pick(all, n), { ...gateway.headers, ...fromCrm })),
  );
  const creates = ['/v1/quotes', '/v1/bookings'].map((path) =>
    load(perSecond.create, gatewayWrite(gateway, memberId, path)),
  );
  const changes = paths.map((all) => load(perSecond.change, (n) => changeOf(gateway, pick(all, n))));
  const [read, create, change] = await Promise.all(
    [reads, creates, changes].map((each) => Promise.all(each)),
  );
  return { read: read ?? [], create: create ?? [], change: change ?? [] };
}

function changeOf({ headers }: Gateway, path: string): string {
  const all = { ...headers, 'content-type': 'application/json', 'idempotency-key': randomUUID() };
  return httpRequest('PATCH', path, all, JSON.stringify({ name: `Hotel Miramar ${randomUUID()}` }));
}

function pick(paths: readonly string[], n: number): string {
  return paths[n % paths.length] ?? '';
}

function notesOf(): string[] {
  const { read, create, change } = perSecond;
  return [
    `A budget of ${dailyCalls} calls a day, its burst used up before; one gateway, PostgreSQL and Redis. Each second ${read} reads of each of`,
    `quotes, bookings and members, ${create} keyed creations and ${change} changes of each of quotes and bookings, at random times.`,
    `The CRM takes ${latencyMs} ms a call. Requests a call: those that were served. A change takes a look-up and an update.`,
  ];
}

function answersOf(loads: readonly LoadResult[]): number {
  return loads.reduce((sum, { answers }) => sum + answers, 0);
}

function requestsACall(runs: readonly Run[]): Spread {
  return spreadOf(runs.map(({ loads, calls }) => answersOf(Object.values(loads).flat()) / calls));
}

function rowOf(runs: readonly Run[]): Record<string, Spread | string> {
  const failed = (loads: readonly LoadResult[]) =>
    loads.flatMap(({ failures }) => Object.values(failures)).reduce((sum, count) => sum + count, 0);
  const cells = (name: keyof Run['loads']) => ({
    [`${name} served of 100`]: spreadOf(
      runs.map(
        ({ loads }) => (100 * answersOf(loads[name])) / (answersOf(loads[name]) + failed(loads[name])),
      ),
    ),
    [`${name} p50 ms`]: spreadOf(runs.map(({ loads }) => Math.max(...loads[name].map(({ p50 }) => p50)))),
    [`${name} p99 ms`]: spreadOf(runs.map(({ loads }) => Math.max(...loads[name].map(({ p99 }) => p99)))),
  });
  return {
    'requests a call': requestsACall(runs),
    'CRM calls a second': spreadOf(runs.map(({ calls, seconds }) => calls / seconds)),
    ...cells('read'),
    ...cells('create'),
    ...cells('change'),
  };
}
