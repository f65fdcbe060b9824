import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { ownEnvironment } from '../../support/environment.ts';
import { startGateway } from '../../support/gateway.ts';
import { startPostgres } from '../../support/postgres.ts';
import { copyEnv, untilCopied } from './support.ts';

const program = join(import.meta.dirname, '../../../src/cli/main.ts');

test('handoff copy rebuild drops the copy of a running service, which fills it again', async (t) => {
  const postgres = await startPostgres();
  if (!postgres) return t.skip('there is no PostgreSQL');
  const gateway = await startGateway({ DATABASE_URL: postgres.url, ...copyEnv });
  t.after(async () => {
    await gateway.stop();
    await postgres.stop();
  });
  const path = `/v1/members/${gateway.org.memberId}`;
  const before = await untilCopied(gateway.request, path);
  const env = { ...ownEnvironment(), DATA_DIR: gateway.dataDir, DATABASE_URL: postgres.url };
  const { stdout } = await promisify(execFile)(process.execPath, [program, 'copy', 'rebuild'], {
    env,
    cwd: gateway.dataDir,
  });
  assert.match(stdout, /^The copy is empty\. /);
  const after = await untilCopied(gateway.request, path, ({ age }) => age !== null);
  assert.deepEqual(after.body, before.body);
  const { copy } = (await (await gateway.request('/v1/healthz')).json()) as { copy: { records: number } };
  assert.ok(copy.records > 0);
});
