import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { Totals } from '../../scripts/test-report.ts';

const program = join(import.meta.dirname, 'runner-process.ts');

/** What the runner says of these files; none may take longer than `timeoutMs`, and all no longer than `limitMs`. */
function runFiles(
  t: TestContext,
  files: Record<string, string>,
  { timeoutMs = 60_000, limitMs = 600_000 } = {},
) {
  const root = mkdtempSync(join(tmpdir(), 'handoff-runner-'));
  t.after(() => rmSync(root, { recursive: true }));
  for (const [name, body] of Object.entries(files))
    writeFileSync(
      join(root, `${name}.test.mjs`),
      `import assert from 'node:assert';\nimport { existsSync, writeFileSync } from 'node:fs';\nimport { describe, test } from 'node:test';\n${body}`,
    );
  // In a test, Node.js runs no other test files.
  const { NODE_TEST_CONTEXT: _, ...others } = process.env;
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [program, root, String(timeoutMs), String(limitMs)],
    {
      encoding: 'utf8',
      cwd: root,
      env: { ...others, CI: 'true' },
    },
  );
  assert.equal(status, 0, stderr);
  return { ...(JSON.parse(stdout) as Totals), output: stderr };
}

const passing = "test('passes', () => {});";
const failing =
  "describe('a suite', () => {\n  test('passes', () => {});\n  test('fails', () => assert.equal(1, 2, 'it differs'));\n});";
const failingOnce = (path = 'tried') =>
  `test('fails once', () => {\n  const isFirst = !existsSync('${path}');\n  writeFileSync('${path}', '');\n  assert.ok(!isFirst, 'the first time');\n});`;

describe('the runner of tests', () => {
  test('counts, prints and times what passes', (t) => {
    const { counts, failures, secondTries, times, output } = runFiles(t, { a: passing, b: passing });
    assert.deepEqual(counts, { tests: 2, passed: 2, skipped: 0 });
    assert.deepEqual([failures, secondTries], [[], []]);
    assert.deepEqual(times.map(({ file }) => file).sort(), ['a.test.mjs', 'b.test.mjs']);
    assert.ok(times.every(({ cpuSeconds, wallSeconds }) => cpuSeconds > 0 && wallSeconds > 0));
    assert.equal(output.match(/✔ passes/g)?.length, 2);
  });

  test('gives the whole name of what fails, why and where', (t) => {
    const { counts, failures, output } = runFiles(t, { a: failing, b: passing });
    assert.deepEqual(failures, ['  a.test.mjs > a suite > fails\n    it differs\n    at a.test.mjs:6:30']);
    assert.deepEqual(counts, { tests: 3, passed: 2, skipped: 0 });
    assert.doesNotMatch(output, /Once more/);
  });

  test('tries files again that may fail by chance, and names them when they pass', (t) => {
    const { counts, failures, secondTries, output } = runFiles(t, { process: failingOnce(), b: passing });
    assert.deepEqual([failures, secondTries], [[], ['process.test.mjs']]);
    assert.deepEqual(counts, { tests: 2, passed: 2, skipped: 0 });
    assert.match(output, /the first time[\s\S]*Once more, alone: process\.test\.mjs/);
  });

  test('fails what fails again, and what may not try again', (t) => {
    const { failures, secondTries, output } = runFiles(t, { process: failing, other: failingOnce() });
    assert.deepEqual(failures, [
      '  other.test.mjs > fails once\n    the first time\n    at other.test.mjs:7:10',
      '  process.test.mjs > a suite > fails\n    it differs\n    at process.test.mjs:6:30',
    ]);
    assert.deepEqual(secondTries, []);
    assert.equal(output.match(/✖ failing tests/g)?.length, 3);
  });

  test('fails a file that ends by itself, is killed, does not load or hangs', (t) => {
    const files = {
      code: `${passing}\nprocess.on('exit', () => { process.exitCode = 3; });`,
      killed: `${passing}\ntest('is killed', () => process.kill(process.pid, 'SIGKILL'));`,
      unloaded: "import './nowhere.mjs';",
      'process-hangs': "test('hangs', () => new Promise((resolve) => setTimeout(resolve, 600_000)));",
    };
    const { failures } = runFiles(t, files, { timeoutMs: 2000 });
    const failed = [...new Set(failures.map((line) => line.trim().split('.test.mjs', 1)[0]))].sort();
    assert.deepEqual(failed, ['code', 'killed', 'process-hangs', 'unloaded']);
  });

  test('kills a file of which one test after another hangs, with what it has started', (t) => {
    const hanging = "test('hangs', () => new Promise((resolve) => setTimeout(resolve, 600_000)));\n";
    const startsOther =
      "spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit', detached: true });\n";
    const files = { a: `import { spawn } from 'node:child_process';\n${startsOther}${hanging.repeat(200)}` };
    const { failures } = runFiles(t, files, { timeoutMs: 2000 });
    assert.ok(
      failures.includes('  a.test.mjs: killed with all that it had started after 2 s'),
      failures.join('\n'),
    );
    assert.ok(failures.length < 20, failures.join('\n'));
  });

  test('ends when its time is over, and fails what has not begun', (t) => {
    const hanging = "test('hangs', () => new Promise((resolve) => setTimeout(resolve, 600_000)));";
    const files = { a: hanging, b: hanging, c: passing, process: passing };
    const { failures } = runFiles(t, files, { limitMs: 2000 });
    for (const file of ['a', 'b']) assert.ok(failures.some((line) => line.startsWith(`  ${file}.test.mjs`)));
    assert.deepEqual(failures.filter((line) => line.includes('not begun')).sort(), [
      "  c.test.mjs: not begun, since the run's 2 s are over",
      "  process.test.mjs: not begun, since the run's 2 s are over",
    ]);
  });

  test('fails a skip that is not on the list', (t) => {
    const skipped = (reason: string) => `test('is left out', { skip: '${reason}' }, () => {});`;
    const { failures } = runFiles(t, {
      a: skipped('there is no helm'),
      process: skipped('there is no PostgreSQL'),
    });
    assert.deepEqual(failures, ['  process.test.mjs > is left out\n    skipped: there is no PostgreSQL']);
  });
});
