import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { packClient } from '../../scripts/pack-client.js';
import { type Credentials, startGateway, type TestGateway } from '../support/gateway.ts';
import { codeBlocks, readPage, root } from './pages.ts';

const run = promisify(execFile);

const printed = [
  ...['signed in as Partner A', 'found Tomasz Okafor', 'handed off: created'],
  ...['the trip: created,created', 'again: existing,existing', 'a trip of Okafor with 2 quotes'],
  'stored: accepted',
  ...[
    'later: created',
    'listed Hotel Miramar',
    'changed to Hotel Miramar, sea view',
    'the same record: true',
  ],
  'refused: 422 member_not_found',
];

const pages: { page: string; language: string; file: string; command: string }[] = [
  { page: 'docs/curl.md', language: 'bash', file: 'tasks.sh', command: 'bash' },
  { page: 'docs/typescript.md', language: 'ts', file: 'tasks.mts', command: process.execPath },
  { page: 'docs/python.md', language: 'python', file: 'tasks.py', command: 'python3' },
];

/** The headings of a page, which are its tasks. */
const tasksOf = (page: string) => [...readPage(page).matchAll(/^## (.+)$/gm)].map(([, task]) => task);

describe('the common tasks, in each language', () => {
  let gateway: TestGateway;
  let credentials: Credentials;
  let folder: string;

  before(async () => {
    gateway = await startGateway({ CHANGES_POLL_SECONDS: '3600' });
    const body = {
      ...{ name: 'Partner A', mode: 'test' },
      permissions: [
        { resource: 'members', actions: ['read'] },
        { resource: 'quotes', actions: ['read', 'write'] },
      ],
    };
    const made = await gateway.request('/v1/admin/consumers', { method: 'POST', as: gateway.admin, body });
    assert.equal(made.status, 201);
    credentials = (await made.json()) as Credentials;
    folder = await mkdtemp(join(tmpdir(), 'handoff-languages-'));
    writeFileSync(join(folder, 'package.json'), '{}');
    const options = ['--no-audit', '--no-fund', '--cache', join(folder, 'cache')];
    await run('npm', ['install', ...options, packClient(join(folder, 'client.tgz'))], { cwd: folder });
  });
  after(async () => {
    await gateway.stop();
    await rm(folder, { recursive: true });
  });

  test('are the same on each page', () => {
    const [first, ...others] = pages.map(({ page }) => tasksOf(page));
    assert.ok(first && first.length >= 9);
    for (const tasks of others) assert.deepEqual(tasks, first);
  });

  for (const { page, language, file, command } of pages) {
    test(`run: ${page}`, async (context) => {
      const isThere = await run(command, ['--version']).then(Boolean, () => false);
      if (!isThere) return context.skip(`there is no ${command}`);
      const blocks = codeBlocks(readPage(page)).filter((block) => block.language === language);
      writeFileSync(join(folder, file), blocks.map(({ text }) => text).join('\n'));
      const { stdout } = await run(command, [file], {
        cwd: folder,
        env: {
          ...process.env,
          HANDOFF_URL: gateway.url,
          HANDOFF_API_KEY: credentials.apiKey,
          HANDOFF_API_SECRET: credentials.apiSecret,
        },
      });
      // A list of two that have the same name is one line here.
      const lines = stdout
        .replace(': True', ': true')
        .trimEnd()
        .split('\n')
        .filter((line, i, all) => line !== all[i - 1]);
      assert.deepEqual(lines.slice(0, printed.length), printed);
      const events = lines.slice(printed.length);
      assert.ok(
        events.some((line) => line.startsWith('event quote.created')),
        stdout,
      );
      assert.ok(
        events.some((line) => line.startsWith('event handoff.created')),
        stdout,
      );
    });
  }

  test('in TypeScript, have the types that the page says', async () => {
    const types = join(folder, 'node_modules/@types');
    symlinkSync(join(root, 'node_modules/@types'), types);
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node'];
    await run(join(root, 'node_modules/.bin/tsc'), [...options, 'tasks.mts'], { cwd: folder }).catch(
      (error: { stdout: string }) => assert.fail(error.stdout),
    );
  });
});
