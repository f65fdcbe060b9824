import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { codeBlocks, readPage, root } from '../docs/pages.ts';
import type { Credentials } from '../support/gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';

const run = promisify(execFile);

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const printed = new RegExp(
  `^handed off ${uuid}\nread Hotel Miramar\nlisted 1\ncreated ${uuid}, replayed true\nreceived quote.created\n$`,
);

const programs: [language: string, file: string, command: string, needs: string][] = [
  ['bash', 'quickstart.sh', 'bash', 'curl'],
  ['ts', 'quickstart.ts', process.execPath, process.execPath],
  ['python', 'quickstart.py', 'python3', 'python3'],
  ['java', 'Quickstart.java', 'java', 'java'],
];

/** The programs of the page, as a reader saves and runs them. */
describe('the quickstart runs', () => {
  let installation: Installation;
  let gateway: GatewayProcess;
  let folder: string;

  before(async () => {
    installation = await createInstallation();
    folder = installation.dataDir;
    gateway = await installation.start({ CHANGES_POLL_SECONDS: '5' });
    const client = join(folder, 'node_modules/@handoff-gateway/client');
    mkdirSync(client, { recursive: true });
    cpSync(join(root, 'client/package.json'), join(client, 'package.json'));
    const build = ['-p', join(root, 'client/tsconfig.build.json'), '--outDir', join(client, 'dist')];
    await run(join(root, 'node_modules/.bin/tsc'), build);
  });
  after(() => installation.remove());

  for (const [language, file, command, needs] of programs) {
    test(`in ${language}`, async (context) => {
      if (!(await isThere(needs))) {
        assert.ok(process.env['CI'] !== 'true', `${needs} is not installed`);
        return context.skip(`there is no ${needs}`);
      }
      const [block] = codeBlocks(readPage('docs/quickstart.md')).filter((each) => each.language === language);
      assert.ok(block);
      writeFileSync(join(folder, file), block.text);
      const { admin } = await installation.credentials();
      const credentials = await makeTestConsumer(gateway.url, admin);
      const { stdout } = await run(command, [file], {
        cwd: folder,
        env: {
          ...process.env,
          HANDOFF_URL: gateway.url,
          HANDOFF_API_KEY: credentials.apiKey,
          HANDOFF_API_SECRET: credentials.apiSecret,
        },
      });
      assert.match(stdout, printed);
    });
  }
});

/** As the page does it on the command line. */
async function makeTestConsumer(url: string, { apiKey, apiSecret }: Credentials): Promise<Credentials> {
  const body = {
    ...{ name: 'First calls', mode: 'test' },
    permissions: [
      { resource: 'members', actions: ['read'] },
      { resource: 'quotes', actions: ['read', 'write'] },
    ],
  };
  const response = await fetch(`${url}/v1/admin/consumers`, {
    method: 'POST',
    headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 201);
  return (await response.json()) as Credentials;
}

async function isThere(command: string): Promise<boolean> {
  return run(command, ['--version']).then(
    () => true,
    () => false,
  );
}
