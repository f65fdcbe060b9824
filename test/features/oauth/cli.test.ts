import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createTestSecrets } from '../../identity/consumers/fixture.ts';
import { ownEnvironment } from '../../support/environment.ts';

const program = join(import.meta.dirname, '../../../src/cli/main.ts');

test('handoff keys rotate adds a key that takes over, and prints nothing secret', async () => {
  const store = await createTestSecrets();
  const env = { ...ownEnvironment(), SECRETS_DIR: store.dir, HANDOFF_ENVIRONMENT: 'staging' };
  const rotate = async (...args: string[]) =>
    (
      await promisify(execFile)(process.execPath, [program, 'keys', 'rotate', ...args], {
        env,
        cwd: store.folder,
      })
    ).stdout;
  const first = JSON.parse(await rotate('--json')) as { kid: string; signs_from: string };
  const text = await rotate();
  const { keys } = JSON.parse((await store.secrets.read('oauth/staging/keys'))?.value ?? '') as {
    keys: { kid: string; signs_from: string; d: string }[];
  };
  assert.deepEqual(keys.map(({ kid }) => kid)[0], first.kid);
  assert.equal(keys.length, 2);
  const [, second] = keys;
  // Every replica has read it by then, also where the secrets manager reports no changes.
  assert.ok(second && Date.parse(second.signs_from) >= Date.parse(first.signs_from) + 40_000);
  assert.equal(text, `The new key ${second.kid} starts signing tokens at ${second.signs_from}.\n`);
  await store.remove();
});
