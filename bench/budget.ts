import { setTimeout as delay } from 'node:timers/promises';
import { openBudget } from '../test/support/call-budget.ts';
import { untilCopied } from './copy.ts';
import type { Crm, Gateway, Harness } from './harness.ts';
import { ledgerNote } from './ledger.ts';
import { openLoad } from './open-load.ts';
import { fillOrg, meteredCalls, setPace } from './org-control.ts';
import type { Part } from './part.ts';
import { gatewayRead, gatewayWrite } from './requests.ts';
import { type Spread, spreadOf } from './spread.ts';

const dailyCalls = 100_000;
const perSecond = { reads: 500, writes: 50 };
const latencyMs = 150;
const quotes = 5000;
const counts = [1, 2, 4];
const fromCopy = { 'cache-control': 'max-age=60' };
/** A measurement takes so many times `--seconds`: a minute, since a call comes every 0.86 s. */
const longer = 15;

interface Run {
  copy: boolean;
  replicas: number;
  calls: number;
  reads: Awaited<ReturnType<typeof openLoad>>;
  writes: Awaited<ReturnType<typeof openLoad>>;
}

/** What becomes of much traffic on few calls: a budget whose burst is used up, and 1, 2 and 4 replicas. */
export const budget: Part = async ({ harness, rounds, seconds }) => {
  const org = await harness.startOrg();
  const { memberId, quoteIds } = await fillOrg(org, quotes);
  await setPace(org, { latencyMs, maxConcurrent: 20 });
  const redis = await harness.newRedis();
  const gateways = await startReplicas(harness, org, redis);
  const shared = await openBudget(redis['REDIS_URL'] as string, secretsDirOf(harness), dailyCalls);
  const [first] = gateways as [Gateway];
  await untilCopied(first, quoteIds);
  const duration = seconds * longer;
  const measure = async (replicas: number, copy: boolean): Promise<Run> => {
    // Replicas give back what they hold and do not need.
    await shared.drain();
    await delay(3000);
    await shared.drain();
    const url = gateways.slice(0, replicas).map((gateway) => gateway.url);
    const reader = copy ? { ...first, headers: { ...first.headers, ...fromCopy } } : first;
    const before = await meteredCalls(org);
    const startedAt = performance.now();
    const [reads, writes] = await Promise.all([
      openLoad({ url, perSecond: perSecond.reads, seconds: duration, next: gatewayRead(reader, quoteIds) }),
      openLoad({ url, perSecond: perSecond.writes, seconds: duration, next: gatewayWrite(first, memberId) }),
    ]);
    const calls = ((await meteredCalls(org)) - before) / ((performance.now() - startedAt) / 1000);
    return { copy, replicas, calls, reads, writes };
  };
  const most = Math.max(...counts);
  const runs: Run[] = [];
  const withCopy: Run[] = [];
  for (let round = 0; round < rounds; round++) {
    withCopy.push(await measure(most, true));
    for (const count of counts) runs.push(await measure(count, false));
  }
  await shared.close();
  const rows = [
    rowOf(most, withCopy),
    ...counts.map((count) =>
      rowOf(
        count,
        runs.filter(({ replicas }) => replicas === count),
      ),
    ),
  ];
  const notes = await notesOf(duration, first, org);
  return {
    tables: [{ title: 'A budget of calls', notes, rows }],
    figures: {
      budgetCalls: callsOf(withCopy),
      budgetReadsP99: spreadOf(withCopy.map(({ reads }) => reads.p99)),
      budgetWritesP99: spreadOf(withCopy.map(({ writes }) => writes.p99)),
      budgetReplicas: spreadOf(
        withCopy.map((_, round) =>
          mostOverFewest(runs.slice(round * counts.length, (round + 1) * counts.length)),
        ),
      ),
    },
  };
};

async function notesOf(duration: number, first: Gateway, org: Crm): Promise<string[]> {
  return [
    `A budget of ${dailyCalls} calls a day, its burst used up before. ${perSecond.reads} reads and ${perSecond.writes} keyed writes a second for`,
    `${duration} s come at random times, to all replicas alike. The CRM takes ${latencyMs} ms a call. One call serves 200 reads at most.`,
    await ledgerNote(first, org),
  ];
}

function secretsDirOf({ processes }: Harness): string {
  return `${processes.folder}/budget-secrets`;
}

async function startReplicas(harness: Harness, crm: Crm, redis: NodeJS.ProcessEnv): Promise<Gateway[]> {
  const env = {
    ...(await harness.newDatabase()),
    ...redis,
    SECRETS_DIR: secretsDirOf(harness),
    CRM_DAILY_CALL_BUDGET: String(dailyCalls),
    // The copy is then older than that by the time that a poll takes, and polls are calls too.
    CHANGES_POLL_SECONDS: '30',
    COPY_ENABLED: 'true',
  };
  // The first one makes the database and the consumers.
  const first = await harness.startGateway({ crm, env });
  const others = Array.from({ length: Math.max(...counts) - 1 }, () => harness.startGateway({ crm, env }));
  return [first, ...(await Promise.all(others))];
}

function rowOf(replicas: number, runs: Run[]) {
  const cells = (name: 'reads' | 'writes') => ({
    [`${name} served of 100`]: spreadOf(runs.map((run) => (100 * run[name].answers) / sentOf(run[name]))),
    [`${name} p50 ms`]: spreadOf(runs.map((run) => run[name].p50)),
    [`${name} p99 ms`]: spreadOf(runs.map((run) => run[name].p99)),
    [`${name} refused`]: runs.map((run) => JSON.stringify(run[name].failures)).join(' '),
  });
  const copy = runs[0]?.copy === true ? 'of the last 60 s' : 'none';
  return { replicas, copy, 'CRM calls a second': callsOf(runs), ...cells('reads'), ...cells('writes') };
}

function sentOf({ answers, failures }: Run['reads']): number {
  return answers + Object.values(failures).reduce((sum, count) => sum + count, 0);
}

function callsOf(runs: Run[]): Spread {
  return spreadOf(runs.map(({ calls }) => calls));
}

function mostOverFewest(runs: Run[]): number {
  const calls = runs.map((run) => run.calls);
  return Math.max(...calls) / Math.min(...calls);
}
