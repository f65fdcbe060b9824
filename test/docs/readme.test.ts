import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createInstallation } from '../support/gateway-process.ts';
import { freePort } from '../support/ports.ts';
import { codeBlocks, readPage, root } from './pages.ts';

/** Blocks that start the service or the tests are what this test does itself; production is another machine's. */
const startsSomething = /npm (start|test)\b/;

/** The shell blocks of the README one after the other, as a reader pastes them, against a gateway of our own. */
test('the commands of the README run', async (context) => {
  if (!hasCurl()) return context.skip('there is no curl');
  const installation = await createInstallation();
  try {
    const port = await freePort();
    const gateway = await installation.start({ METRICS_PORT: String(port), METRICS_HOST: '127.0.0.1' });
    const commands = codeBlocks(readPage('README.md'))
      .filter(({ language, text }) => language === 'sh' && !startsSomething.test(text))
      .map(({ text }) => text);
    assert.ok(commands.length >= 5);
    const script = commands
      .join('\n')
      .replaceAll('http://127.0.0.1:8080', gateway.url)
      .replaceAll('http://127.0.0.1:9464', `http://127.0.0.1:${port}`)
      .replaceAll('./.data/', `${installation.dataDir}/`);
    // A command that the gateway refuses ends the script.
    const strict = `set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; echo; }\n${script}`;
    const { stdout } = await promisify(execFile)('bash', ['-c', strict], {
      cwd: root,
      env: { ...process.env, DATA_DIR: installation.dataDir },
    });
    assert.match(stdout, /"type":"quote","status":"created"/);
    assert.match(stdout, /"details":\{"rate_key":"20270412\|W\|1\|1073\|DBT\.SU","net":612\.40,/);
    assert.match(stdout, /"name":"Casa Olivo, table for 4"/);
    assert.match(stdout, /"status":"confirmed",.*"name":"Casa Olivo, lunch for 2"/);
    assert.match(stdout, /"status":"ok"/);
    assert.match(stdout, /^ready$/m);
    assert.match(stdout, /API secret {3}hgs_/);
    assert.match(stdout, /Partner console {2}active {2}unknown\n {2}quotes:read,write bookings:read/);
  } finally {
    await installation.remove();
  }
});

function hasCurl(): boolean {
  try {
    execFileSync('curl', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
