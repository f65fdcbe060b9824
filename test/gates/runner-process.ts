import { readdirSync } from 'node:fs';
import { runTests } from '../../scripts/test-runner.ts';

/** Runs the test files of a folder, and prints the totals: those named after processes may try again. */
const [, , root = '', timeoutMs = '', limitMs = ''] = process.argv;
const totals = await runTests(
  readdirSync(root)
    .filter((name) => name.endsWith('.test.mjs'))
    .sort(),
  {
    root,
    concurrency: 2,
    timeoutMs: Number(timeoutMs),
    limitMs: Number(limitMs),
    mayTryAgain: (file) => file.startsWith('process'),
    signal: new AbortController().signal,
    print: (text) => process.stderr.write(text),
  },
);
process.stdout.write(JSON.stringify(totals));
