import { randomUUID } from 'node:crypto';
import { httpRequest } from './load.ts';
import type { Part } from './part.ts';
import { startExpressGateway, startFastifyProxy, startNginx } from './peers.ts';
import type { Program } from './processes.ts';
import type { Cell } from './report.ts';
import { gatewayRead } from './requests.ts';
import { interleave, loadCells, type Measured, measure, rates } from './rounds.ts';
import { ratio, type Spread, spreadOfPairs } from './spread.ts';

const clients = 64;

interface Contender {
  url: string;
  program: Program;
  next: (n: number) => string;
}

/** Authenticated reads against a CRM that answers at once, over what other proxies reach before the same upstream. */
export const proxy: Part = async ({ harness, rounds, seconds, offline }) => {
  const upstream = await harness.startUpstream();
  const gateway = await harness.startGateway({ crm: upstream, env: await harness.newDatabase() });
  const quoteIds = Array.from({ length: 1000 }, () => randomUUID());
  const bytes = await sampleAnswer(`${gateway.url}/v1/quotes/${quoteIds[0]}`, gateway.headers);
  await fetch(`${upstream.url}/plain`, { method: 'POST', body: bytes });
  const peers = {
    nginx: await startNginx(harness, upstream.url),
    '@fastify/http-proxy': offline ? undefined : await startFastifyProxy(harness, upstream.url),
    'express-gateway with key-auth': offline ? undefined : await startExpressGateway(harness, upstream.url),
    // Under the name that its CPU time has in every row.
    upstream: { ...upstream, headers: {} },
  };
  const contenders: Record<string, Contender> = {
    gateway: { ...gateway, next: gatewayRead(gateway, quoteIds) },
  };
  for (const [name, peer] of Object.entries(peers)) {
    if (peer === undefined) continue;
    const request = httpRequest('GET', '/plain', peer.headers);
    if ((await sampleAnswer(`${peer.url}/plain`, peer.headers)) !== bytes)
      throw new Error(`${name} does not pass the bytes on`);
    contenders[name] = { ...peer, next: () => request };
  }
  const runs: Record<string, () => Promise<Measured>> = {};
  for (const [name, { url, program, next }] of Object.entries(contenders)) {
    const programs = { upstream: upstream.program, [name]: program };
    runs[name] = () => measure({ urls: [url], clients, seconds, next }, programs);
  }
  const results = await interleave(rounds, runs);
  const over = (name: string): Spread | undefined => {
    const [ours, theirs] = [results['gateway'], results[name]];
    return ours && theirs && spreadOfPairs(rates(ours), rates(theirs), ratio);
  };
  const rows = ['gateway', ...Object.keys(peers)].map((name): Record<string, Cell> => {
    const measured = results[name];
    const missing = { proxy: name, 'gateway over it': 'not installed' };
    return measured ? { proxy: name, 'gateway over it': over(name), ...loadCells(measured) } : missing;
  });
  const notes = [
    `The CRM answers at once, from a program of its own; ${clients} clients; ${Buffer.byteLength(bytes)} bytes a body.`,
    'The gateway authenticates, asks the CRM with its token, and maps; the others pass the same bytes on.',
    'The last row is the limit of load generator and upstream together. Clients and servers share the cores.',
  ];
  return {
    tables: [{ title: 'Beside other proxies', notes, rows }],
    figures: present({
      readsOverFastify: over('@fastify/http-proxy'),
      readsOverExpress: over('express-gateway with key-auth'),
    }),
  };
};

/** The body of one answer, which must be a 200. */
async function sampleAnswer(url: string, headers: Record<string, string>): Promise<string> {
  const response = await fetch(url, { headers });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`GET ${url}: ${response.status} ${body}`);
  return body;
}

function present<K extends string>(figures: Record<K, Spread | undefined>): Partial<Record<K, Spread>> {
  const found = Object.entries(figures).filter(([, spread]) => spread !== undefined);
  return Object.fromEntries(found) as Partial<Record<K, Spread>>;
}
