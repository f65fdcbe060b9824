import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createInstallation } from '../support/gateway-process.ts';
import { codeBlocks, readPage } from './pages.ts';

/** The shell blocks of the page as a reader pastes them, against a gateway of our own. */
test('the commands of docs/webhooks.md run, and their webhook is accepted', async (context) => {
  const shell = promisify(execFile);
  const tools = ['curl --version', 'openssl version'];
  for (const tool of tools) {
    const isThere = await shell('sh', ['-c', tool]).then(
      () => true,
      () => false,
    );
    if (!isThere) return context.skip(`there is no ${tool.split(' ')[0]}`);
  }
  const installation = await createInstallation();
  context.after(async () => {
    await installation.remove();
  });
  const gateway = await installation.start();
  const script = codeBlocks(readPage('docs/webhooks.md'))
    .filter(({ language }) => language === 'sh')
    .map(({ text }) => text)
    .join('\n')
    .replaceAll('http://127.0.0.1:8080', gateway.url)
    .replaceAll('./.data/', `${installation.dataDir}/`);
  const { stdout } = await shell('sh', ['-eu', '-c', script]);
  assert.match(stdout, /^\{"status":"accepted"\}whsec_[A-Za-z0-9+/]{43}=\n$/);
});
