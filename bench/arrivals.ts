import { callsEach, measureCalls, type WithCalls } from './calls.ts';
import type { FigureName } from './figures.ts';
import { fillOrg, insertMembers, setPace } from './org-control.ts';
import type { Part } from './part.ts';
import { gatewayRead, gatewayWrites } from './requests.ts';
import { interleave, loadCells } from './rounds.ts';
import { type Spread, spreadOf } from './spread.ts';

/** Requests a second. */
const rates = { reads: [5, 50, 500, 2000], 'keyed writes': [50, 500, 1000] };
const latencyMs = 150;
const maxConcurrent = 20;
/** More than are ever asked for at once, so that hardly any two requests are for the same record or member. */
const quotes = 5000;
const members = 5000;

/** Reads and keyed writes that arrive at random against a slow and narrow CRM: what batching costs and saves. */
export const arrivals: Part = async ({ harness, rounds, seconds }) => {
  const org = await harness.startOrg();
  const { quoteIds } = await fillOrg(org, quotes);
  const memberIds = await insertMembers(org, members);
  const gateway = await harness.startGateway({ crm: org, env: await harness.newDatabase() });
  await setPace(org, { latencyMs, maxConcurrent });
  const next = { reads: gatewayRead(gateway, quoteIds), 'keyed writes': gatewayWrites(gateway, memberIds) };
  const run = (kind: keyof typeof rates, perSecond: number) => () =>
    measureCalls({ url: gateway.url, perSecond, seconds, next: next[kind] }, { gateway, org });
  const kinds = Object.keys(rates) as (keyof typeof rates)[];
  const runs = kinds.flatMap((kind) =>
    rates[kind].map((perSecond) => ({ kind, perSecond, name: `${kind} ${perSecond}` })),
  );
  const results = await interleave(
    rounds,
    Object.fromEntries(runs.map(({ kind, perSecond, name }) => [name, run(kind, perSecond)])),
  );
  const of = (name: string): WithCalls[] => results[name] as WithCalls[];
  const rows = runs.map(({ kind, perSecond, name }) => ({
    requests: kind,
    'due a second': perSecond,
    'CRM calls each': callsEach(of(name)),
    ...loadCells(of(name)),
  }));
  const notes = [
    `The CRM takes ${latencyMs} ms a call and ${maxConcurrent} calls at once. Requests come at random times, whether or not`,
    'earlier ones are answered; latencies count from when a request was due. The gateway stands on PostgreSQL.',
  ];
  const p50 = (name: string) => spreadOf(of(name).map((measured) => measured.p50));
  const p99 = (name: string) => spreadOf(of(name).map((measured) => measured.p99));
  return {
    tables: [{ title: 'Arrivals at random', notes, rows }],
    figures: {
      readsP50: p50('reads 2000'),
      readsP99: p99('reads 2000'),
      callsPerRead: callsEach(of('reads 2000')),
      fewReadsP50: p50('reads 50'),
      callsPerFewReads: callsEach(of('reads 50')),
      writesP50: p50('keyed writes 1000'),
      writesP99: p99('keyed writes 1000'),
      callsPerWrite: callsEach(of('keyed writes 1000')),
    } satisfies Partial<Record<FigureName, Spread>>,
  };
};
