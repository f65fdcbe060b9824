import { fillOrg } from './org-control.ts';
import type { Part } from './part.ts';
import { directRead, directWrite, gatewayRead, gatewayWrite } from './requests.ts';
import { interleave, loadCells, type Measured, measure } from './rounds.ts';
import { difference, type Spread, spreadOf, spreadOfPairs } from './spread.ts';

/** What the gateway adds to one request at a time, over calls to the same org directly. */
export const idle: Part = async ({ harness, rounds, seconds }) => {
  const org = await harness.startOrg();
  const { memberId, quoteIds } = await fillOrg(org, 1000);
  const gateway = await harness.startGateway({ crm: org, env: await harness.newDatabase() });
  const run = (url: string, next: (n: number) => string) => () =>
    measure({ urls: [url], clients: 1, seconds, next }, { gateway: gateway.program, CRM: org.program });
  const results = await interleave(rounds, {
    directRead: run(org.url, await directRead(org, quoteIds)),
    read: run(gateway.url, gatewayRead(gateway, quoteIds)),
    directWrite: run(org.url, await directWrite(org, memberId)),
    write: run(gateway.url, gatewayWrite(gateway, memberId)),
  });
  const p50s = (measured: Measured[]) => measured.map(({ p50 }) => p50);
  const row = (requests: string, through: Measured[], direct: Measured[]) => ({
    requests,
    'added p50 ms': spreadOfPairs(p50s(through), p50s(direct), difference),
    'direct p50 ms': spreadOf(p50s(direct)),
    ...loadCells(through),
  });
  const rows = [
    row('reads', results.read, results.directRead),
    row('keyed writes', results.write, results.directWrite),
  ];
  const notes = [
    'One client, one request at a time, over calls to the same simulated org directly. The CRM answers at once.',
    'A keyed write is claimed and completed in PostgreSQL, and what was written is read back from the CRM.',
  ];
  const added = (position: number): Spread => rows[position]?.['added p50 ms'] as Spread;
  return {
    tables: [{ title: 'Idle latency', notes, rows }],
    figures: { idleRead: added(0), idleWrite: added(1) },
  };
};
