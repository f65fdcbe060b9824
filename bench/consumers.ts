import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { AuthenticationResult } from './authentication.ts';
import type { LoadingRow } from './loading.ts';
import type { Part } from './part.ts';
import type { Cell } from './report.ts';
import { pathTo } from './stage.ts';

/** Authentication with few and with many consumers. */
export const authentication: Part = async ({ rounds, consumers }) => {
  const result = (await runProgram('bench/authentication.ts', consumers, rounds)) as AuthenticationResult;
  const notes = ['Microseconds of one check of credentials, in the process, without HTTP.'];
  const rows = result.rows as Record<string, Cell>[];
  return {
    tables: [{ title: 'Authentication', notes, rows }],
    // With fewer consumers than the target names it says nothing about the target.
    figures: consumers === 100_000 ? { authentication: result.manyOverFew } : {},
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
