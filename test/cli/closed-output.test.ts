import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

test('a command whose output is closed ends quietly, with the code of a closed pipe', (context) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'handoff-closed-'));
  context.after(() => rmSync(dataDir, { recursive: true, force: true }));
  // `true` has ended, and its end of the pipe is closed, long before there is something to write.
  const pipe = '"$0" bin/handoff.js doctor | true; exit "${PIPESTATUS[0]}"';
  const { status, stderr } = spawnSync('bash', ['-c', pipe, process.execPath], {
    env: { ...process.env, DATA_DIR: dataDir },
    encoding: 'utf8',
    timeout: 120_000,
  });
  assert.equal(stderr, '');
  assert.equal(status, 141);
});
