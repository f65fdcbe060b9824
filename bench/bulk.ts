import { callsEach, measureCalls } from './calls.ts';
import { fillOrg, insertMembers, setPace } from './org-control.ts';
import type { Part } from './part.ts';
import { directRead, directWrite, gatewayRead, gatewayWrites } from './requests.ts';
import { interleave, loadCells, rates } from './rounds.ts';
import { ratio, spreadOfPairs } from './spread.ts';

/** What the figures to reach are about. */
const figureClients = 512;
/** As many as the CRM takes at once: a direct client with more of them would wait in the CRM instead. */
const directConnections = 20;
const latencyMs = 150;
/** More than are ever asked for at once, so that hardly any two requests are for the same record or member. */
const quotes = 5000;
const members = 5000;

/** Reads and keyed writes against a slow and narrow CRM: what batching is worth. */
export const bulk: Part = async ({ harness, rounds, seconds, clients }) => {
  const org = await harness.startOrg();
  const { memberId, quoteIds } = await fillOrg(org, quotes);
  const memberIds = await insertMembers(org, members);
  const gateway = await harness.startGateway({ crm: org, env: await harness.newDatabase() });
  await setPace(org, { latencyMs, maxConcurrent: directConnections });
  const run = (url: string, count: number, next: (n: number) => string) => () =>
    measureCalls({ urls: [url], clients: count, seconds, next }, { gateway, org });
  const results = await interleave(rounds, {
    'direct reads': run(org.url, directConnections, await directRead(org, quoteIds)),
    reads: run(gateway.url, clients, gatewayRead(gateway, quoteIds)),
    'direct writes': run(org.url, directConnections, await directWrite(org, memberId)),
    'keyed writes': run(gateway.url, clients, gatewayWrites(gateway, memberIds)),
  });
  type Name = keyof typeof results;
  const over = (one: Name, other: Name) => spreadOfPairs(rates(results[one]), rates(results[other]), ratio);
  const rows = (Object.keys(results) as Name[]).map((name) => ({
    requests: name,
    clients: name.startsWith('direct') ? directConnections : clients,
    'over direct': over(name, name.endsWith('reads') ? 'direct reads' : 'direct writes'),
    'CRM calls each': callsEach(results[name]),
    ...loadCells(results[name]),
  }));
  const notes = [
    `The CRM takes ${latencyMs} ms a call and ${directConnections} calls at once; the direct client has as many connections.`,
    `Reads go through ${quotes} quotes in turn; each write has a key of its own, and members come in turn. The gateway stands on PostgreSQL.`,
  ];
  const figures = {
    readsOverDirect: over('reads', 'direct reads'),
    writesOverDirect: over('keyed writes', 'direct writes'),
  };
  return {
    tables: [{ title: `A slow CRM, ${clients} clients`, notes, rows }],
    figures: clients === figureClients ? figures : {},
  };
};
