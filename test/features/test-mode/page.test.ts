import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { testFaults } from '../../../src/records/test-members.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { makeConsumer } from './worlds.ts';

const run = promisify(execFile);
const page = await readFile(new URL('../../../docs/test-keys.md', import.meta.url), 'utf8');

/** Each row of the table of faults: how the id ends, what is answered, and the command. */
const rows = [...page.matchAll(/^\| `-(\d{12})` \| (\d+) `(\w+)`.*\| `(curl [^`]+)` \|$/gm)].map(
  ([, end = '', status = '', word = '', command = '']) => ({ end, status, word, command }),
);
const [, preparation = ''] = /^```bash\n([\s\S]*?)^```$/m.exec(page) ?? [];

describe('the page on test keys', () => {
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
    for (const { status, word, command } of rows) {
      const script = `${preparation}\n${command} -w '\\n%{http_code}'`;
      const { stdout } = await run('bash', ['-c', script], { cwd: dir, env: { ...process.env, ...env } });
      const [body = '', answered] = stdout.trim().split('\n');
      const found = JSON.parse(body) as { code?: string; status: string };
      assert.deepEqual([answered, found.code ?? found.status], [status, word], command);
    }
  });
});
