import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { pathTo } from '../../bench/harness.ts';
import { isNightly } from '../support/nightly.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';

interface Spread {
  median: number;
  min: number;
  max: number;
}
interface Report {
  figures: Record<string, Spread>;
  tables: { title: string; rows: Record<string, string | number | Spread>[] }[];
}

/** One round of a moment each: it says nothing about speed, but all of the benchmark's parts start and measure. */
const tiny = `--rounds 1 --seconds 0.1 --clients 30 --consumers 50${isNightly ? '' : ' --offline'}`.split(
  ' ',
);

const stores = [await startPostgres(), await startRedis()];
for (const store of stores) await store?.stop();

describe('the benchmark', { skip: stores.includes(undefined) && 'PostgreSQL or Redis is missing' }, () => {
  let folder = '';
  let report: Report;
  const page = () => join(folder, 'page.md');

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handoff-bench-test-'));
    await writeFile(
      page(),
      'before\n<!-- bench: written by npm run bench -->\nold\n<!-- bench: end -->\nafter\n',
    );
    const files = ['--json', join(folder, 'report.json'), '--markdown', page()];
    await bench('--only', 'bulk,arrivals,proxy,idle,authentication,loading,replicas', ...tiny, ...files);
    report = JSON.parse(await readFile(join(folder, 'report.json'), 'utf8')) as Report;
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test('answers every request that it sends in every part', () => {
    const rows = report.tables.flatMap((table) => table.rows).filter((row) => 'a second' in row);
    assert.ok(rows.length >= 4 + 7 + 3 + 6);
    for (const row of rows) {
      assert.equal(row['other answers'], 'none', JSON.stringify(row));
      for (const column of ['a second', 'p50 ms', 'p99 ms']) {
        assert.ok((row[column] as Spread).median > 0, `${column} of ${JSON.stringify(row)}`);
      }
    }
  });

  test('counts the calls of the CRM', () => {
    const calls = Object.fromEntries(
      rowsOf('A slow CRM, 30 clients').map((row) => [
        row['requests'],
        (row['CRM calls each'] as Spread).median,
      ]),
    );
    assert.equal(calls['direct reads'], 1);
    assert.equal(calls['direct writes'], 1);
    assert.ok((calls['reads'] ?? 0) > 0);
    assert.ok((calls['keyed writes'] ?? 0) > 0);
  });

  test('sets figures beside their targets, and leaves out those that its sizes say nothing about', async () => {
    const figures = rowsOf('Figures to reach');
    assert.deepEqual(
      figures.filter(({ met }) => met === 'not measured').map(({ target }) => target),
      figures.filter(({ measured }) => measured === undefined).map(({ target }) => target),
    );
    // Peers are fetched.
    assert.equal((report.figures['readsOverFastify']?.median ?? 0) > 0, isNightly);
    assert.ok(Number.isFinite(report.figures['idleWrite']?.median));
    assert.equal(report.figures['readsOverDirect'], undefined);
    assert.equal(report.figures['authentication'], undefined);
  });

  test('writes its tables into a page, between the markers', async () => {
    const text = await readFile(page(), 'utf8');
    assert.match(
      text,
      /^before\n<!-- .* -->\n\n- date: .*### Figures to reach.*\n<!-- bench: end -->\nafter\n$/s,
    );
    assert.doesNotMatch(text, /old/);
  });

  test('says what is wrong with its options', async () => {
    await assert.rejects(bench('--only', 'everything'), /there is no part everything.*Usage/s);
    await assert.rejects(bench('--rounds', '0'), /--rounds must be a whole number above 0/);
  });

  function rowsOf(title: string): Report['tables'][number]['rows'] {
    return report.tables.find((table) => table.title === title)?.rows ?? [];
  }
});

async function bench(...args: string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [pathTo('bench/main.ts'), ...args]);
}
