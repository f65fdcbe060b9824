import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createInstallation } from '../support/gateway-process.ts';
import { codeBlocks, readPage, root } from './pages.ts';

/** What starts something is what this test does itself; these commands need the database, which a service holds here. */
const notHere = /npm (start|test)\b|handoff -- (reservation|doctor)\b/;

/** The shell blocks one after the other, as a reader pastes them, against a gateway of our own. */
test('the commands of the README run', async (context) => {
  if (!hasCurl()) return context.skip('there is no curl');
  const installation = await createInstallation();
  context.after(() => installation.remove());
  const gateway = await installation.start();
  const commands = codeBlocks(readPage('README.md'))
    .filter(({ language, text }) => language === 'sh' && !notHere.test(text))
    .map(({ text }) => text);
  assert.ok(commands.length >= 3);
  const script = commands
    .join('\n')
    .replaceAll('http://127.0.0.1:8080', gateway.url)
    .replaceAll('./.data/', `${installation.dataDir}/`);
  // A command that the gateway refuses ends the script.
  const strict = `set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; echo; }\n${script}`;
  const { stdout } = await promisify(execFile)('bash', ['-c', strict], {
    cwd: root,
    env: { ...process.env, DATA_DIR: installation.dataDir },
  });
  assert.match(stdout, /"type":"quote","status":"created"/);
  assert.match(stdout, /"details":\{"rate_key":"20270412\|W\|1\|1073\|DBT\.SU","net":612\.40,/);
  assert.match(stdout, /"status":"ok"/);
  assert.match(stdout, /API secret {3}hgs_/);
});

function hasCurl(): boolean {
  try {
    execFileSync('curl', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
