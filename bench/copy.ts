import { setTimeout as delay } from 'node:timers/promises';
import type { Gateway } from './harness.ts';
import { cutOff, fillOrg } from './org-control.ts';
import type { Part } from './part.ts';
import { gatewayRead } from './requests.ts';
import { interleave, loadCells, type Measured, measure, rates } from './rounds.ts';
import { ratio, spreadOf, spreadOfPairs } from './spread.ts';

const clients = 64;
const fromCopy = { 'cache-control': 'max-age=600' };
const fromCrm = { 'cache-control': 'no-cache' };
const ifCrmFails = { 'cache-control': 'max-age=0, stale-if-error=3600' };

/** Reads of quotes from the copy, over the same reads from the CRM. */
export const copy: Part = async ({ harness, rounds, seconds }) => {
  const org = await harness.startOrg();
  const { quoteIds } = await fillOrg(org, 1000);
  const env = { ...(await harness.newDatabase()), COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '60' };
  const gateway = await harness.startGateway({ crm: org, env });
  await untilCopied(gateway, quoteIds);
  const run = (cacheControl: Record<string, string>, count: number) => {
    const next = gatewayRead({ ...gateway, headers: { ...gateway.headers, ...cacheControl } }, quoteIds);
    const programs = { gateway: gateway.program, CRM: org.program };
    return () => measure({ urls: [gateway.url], clients: count, seconds, next }, programs);
  };
  const results = await interleave(rounds, {
    copy: run(fromCopy, clients),
    crm: run(fromCrm, clients),
    idleCopy: run(fromCopy, 1),
    idleCrm: run(fromCrm, 1),
  });
  await cutOff(org);
  const whileDown = await interleave(rounds, { down: run(ifCrmFails, clients) });
  const over = spreadOfPairs(rates(results.copy), rates(results.crm), ratio);
  const row = (reads: string, measured: Measured[], others = {}) => ({
    reads,
    ...others,
    ...loadCells(measured),
  });
  const rows = [
    row(`from the copy, ${clients} clients`, results.copy, { 'over the CRM': over }),
    row(`from the CRM, ${clients} clients`, results.crm),
    row(`from the copy, stale-if-error and the CRM down, ${clients} clients`, whileDown.down),
    row('from the copy, one at a time', results.idleCopy),
    row('from the CRM, one at a time', results.idleCrm),
  ];
  const notes = [
    'Authenticated reads of single quotes; one process, PostgreSQL. The CRM answers at once, and counts no call for the copy.',
    'With the CRM down every read asks for the CRM first; it is cut off for the last measurement.',
    'Clients, gateway, PostgreSQL and the simulated org share the cores.',
  ];
  return {
    tables: [{ title: 'Reads from the copy', notes, rows }],
    figures: {
      copyReads: spreadOf(rates(results.copy)),
      copyIdle: spreadOf(results.idleCopy.map(({ p50 }) => p50)),
    },
  };
};

export async function untilCopied({ url, headers }: Gateway, quoteIds: string[]): Promise<void> {
  for (const id of [quoteIds[0], quoteIds.at(-1)])
    for (;;) {
      const answer = await fetch(`${url}/v1/quotes/${id}`, { headers: { ...headers, ...fromCopy } });
      if (answer.headers.has('age')) break;
      await delay(100);
    }
}
