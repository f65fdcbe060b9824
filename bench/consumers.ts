import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { AuthenticationResult } from './authentication.ts';
import { pathTo } from './harness.ts';
import type { LoadingRow } from './loading.ts';
import type { Part } from './part.ts';
import { type Cell, formatCell } from './report.ts';
import { gatewayRead } from './requests.ts';
import { interleave, measure } from './rounds.ts';
import { spreadOf } from './spread.ts';

const clients = 64;

/** Authentication with few and with many consumers, and its share of the processor time of a whole read. */
export const authentication: Part = async ({ harness, rounds, seconds, consumers }) => {
  const result = (await runProgram('bench/authentication.ts', consumers, rounds)) as AuthenticationResult;
  const upstream = await harness.startUpstream();
  const gateway = await harness.startGateway({ crm: upstream, env: await harness.newDatabase() });
  const quoteIds = Array.from({ length: 1000 }, () => randomUUID());
  const load = { urls: [gateway.url], clients, seconds, next: gatewayRead(gateway, quoteIds) };
  const { reads } = await interleave(rounds, {
    reads: () => measure(load, { gateway: gateway.program, upstream: upstream.program }),
  });
  const readMicroseconds = spreadOf(reads.map(({ cpu }) => cpu['gateway'] ?? Number.NaN));
  const share = spreadOf(
    reads.map(({ cpu }) => (100 * result.accepted.median) / (cpu['gateway'] ?? Number.NaN)),
  );
  const notes = [
    'Microseconds of one check of credentials, in the process, without HTTP.',
    `A whole read, with ${clients} clients and a CRM that answers at once, takes the gateway`,
    `${formatCell(readMicroseconds)} µs of the processor.`,
  ];
  const rows = result.rows as Record<string, Cell>[];
  return {
    tables: [{ title: 'Authentication', notes, rows }],
    // With fewer consumers than the target names it says nothing about the target.
    figures: consumers === 100_000 ? { authentication: share } : {},
  };
};

/** How long a start takes to load many consumers. */
export const loading: Part = async ({ consumers }) => {
  const rows = (await runProgram('bench/loading.ts', consumers)) as LoadingRow[];
  const notes = ['From the file secrets manager, at a start; measured once.'];
  return {
    tables: [{ title: 'Loading of consumers', notes, rows: rows.map((row) => ({ ...row })) }],
    figures: {},
  };
};

/** In a process of its own, so that its memory does not slow the load generator down. */
async function runProgram(program: string, ...numbers: number[]): Promise<unknown> {
  const { stdout } = await promisify(execFile)(process.execPath, [pathTo(program), ...numbers.map(String)]);
  return JSON.parse(stdout);
}
