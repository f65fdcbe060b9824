import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { testFaults } from '../../../src/records/test-members.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { makeConsumer } from './worlds.ts';

const run = promisify(execFile);
const page = await readFile(new URL('../../../docs/partners/make-it-fail.md', import.meta.url), 'utf8');

/** Each row of the table of faults: how the id ends, and what is answered. */
const rows = [...page.matchAll(/^\| `-(\d{12})` \| (\d+) `(\w+)`/gm)].map(
  ([, end = '', status = '', word = '']) => ({ end, status, word }),
);
const [, command = ''] = /^```bash\n([\s\S]*?)^```$/m.exec(page) ?? [];

describe('the page on making it fail', () => {
  let gateway: TestGateway;
  let dir: string;
  before(async () => {
    gateway = await startGateway();
    dir = await mkdtemp(join(tmpdir(), 'handoff-page-'));
  });
  after(async () => {
    await gateway.stop();
    await rm(dir, { recursive: true });
  });

  it('has every fault', () => {
    assert.deepEqual(rows.map(({ end }) => end).toSorted(), Object.keys(testFaults).toSorted());
  });

  it('says what each of them does', async () => {
    const { apiKey, apiSecret } = await makeConsumer(gateway);
    const env = { HANDOFF_URL: gateway.url, HANDOFF_API_KEY: apiKey, HANDOFF_API_SECRET: apiSecret };
    for (const { end, status, word } of rows) {
      const script = command.replace(/000000000503$/m, end);
      const own = { ...env, KEY: randomUUID() };
      const { stdout } = await run('bash', ['-c', script], { cwd: dir, env: { ...process.env, ...own } });
      const [, answered] = /^HTTP\/1\.1 (\d+)/.exec(stdout) ?? [];
      const found = JSON.parse(stdout.slice(stdout.indexOf('{'))) as { code?: string; status: string };
      assert.deepEqual([answered, found.code ?? found.status], [status, word], end);
    }
  });
});
