import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { CommandLine } from '../support/command-line.ts';
import { ownEnvironment } from '../support/environment.ts';
import { eventually } from '../support/eventually.ts';
import { temporaryFolder } from '../support/folders.ts';
import { freePort } from '../support/ports.ts';

const program = join(import.meta.dirname, '../../src/main.ts');

describe('the first minutes on a terminal', () => {
  const commands = new CommandLine();
  const dataDir = temporaryFolder();
  let env: NodeJS.ProcessEnv;
  let output = '';
  let ended: Promise<unknown>;

  before(async () => {
    await writeFile(join(dataDir, 'config.json'), '{}');
    env = { DATA_DIR: dataDir, PORT: String(await freePort()), METRICS_PORT: '0' };
    const command = `"${process.execPath}" "${program}" --config "${join(dataDir, 'config.json')}"`;
    // A terminal for the service: of ours there may be none.
    const terminal = spawn('script', ['--quiet', '--flush', '--return', '--command', command, '/dev/null'], {
      env: { ...ownEnvironment(), ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    ended = once(terminal, 'exit');
    await eventually(() => assert.match(output, /Stop +Ctrl\+C[\s\S]*curl .*\s/));
  });
  after(async () => {
    const { pid } = JSON.parse(await readFile(join(dataDir, 'in-use'), 'utf8')) as { pid: number };
    process.kill(pid, 'SIGTERM');
    await ended;
    commands.stop();
  });

  const run = (...args: string[]) =>
    commands.run(['--config', join(dataDir, 'config.json'), ...args], { env });

  test('begin with where to go, and the log is in a file', async () => {
    const shown = stripVTControlCharacters(output).replaceAll('\r', '');
    const rows = shown.split('\n').filter((line) => line.startsWith('  '));
    assert.ok(rows.length <= 11, shown);
    const url = `http://127.0.0.1:${env['PORT']}`;
    assert.match(rows[0] ?? '', new RegExp(`^  Console +${url}/console/$`));
    const [_, credentials = ''] = /Credentials +(\S+)/.exec(shown) ?? [];
    assert.ok('console' in JSON.parse(await readFile(credentials, 'utf8')));
    assert.ok(shown.includes(`DATA_DIR=${dataDir} PORT=${env['PORT']} npm run handoff -- try`), shown);
    assert.doesNotMatch(shown, /"level"/);
    const [, log = ''] = /Log +(\S+)/.exec(shown) ?? [];
    await eventually(async () => {
      const lines = (await readFile(log, 'utf8')).trim().split('\n');
      assert.ok(lines.some((line) => JSON.parse(line).msg === 'ready'));
    });
  });

  test('hand a sample off by a command, whose links lead to it', async () => {
    const { stdout, stderr } = await run('try');
    assert.match(stdout, /^Created a quote in Salesforce for \w.*:\n.*612\.40 EUR\n/, stderr);
    const [, inOrg = ''] = /In Salesforce +(\S+)/.exec(stdout) ?? [];
    assert.match(await (await fetch(inOrg)).text(), /Hotel Miramar/);
    const tried = JSON.parse((await run('try', '--json')).stdout);
    assert.equal(tried.status, 'created');
    assert.ok(tried.console_url.endsWith(`/records/quotes/${tried.external_id}`));
    // Beside the service, which has the embedded database.
    const listed = async () => JSON.parse((await run('events', 'list', '--json')).stdout);
    await eventually(async () =>
      assert.ok(
        (await listed()).some((event: { resource_id: string }) => event.resource_id === tried.external_id),
      ),
    );
  });

  test('list by commands what the running service has, under the older names too', async () => {
    for (const group of ['handoffs', 'handoff', 'deliveries', 'webhooks', 'reservations', 'events']) {
      const { code, stderr } = await run(group, 'list');
      assert.deepEqual([code, stderr], [0, ''], group);
    }
    await run('try');
    const used = JSON.parse((await run('consumers', 'list', '--json')).stdout) as { lastUsedAt?: string }[];
    assert.ok(used.every((consumer) => 'lastUsedAt' in consumer));
  });

  test('leave changes of the embedded database to the service', async () => {
    const { code, stderr } = await run('handoffs', 'cancel', randomUUID());
    assert.equal(code, 1);
    assert.match(stderr, /is in use by process \d+ \(handoff serve/);
  });

  test('say how to go on where no service answers', async () => {
    const { code, stderr } = await commands.run(['try'], { env: { ...env, PORT: String(await freePort()) } });
    assert.equal(code, 1);
    assert.match(stderr, /No gateway is running at http:.*npm start/);
    const elsewhere = await commands.run(['try'], { env: { ...env, DATA_DIR: join(dataDir, 'none') } });
    assert.match(elsewhere.stderr, /credentials\.json doesn't exist/);
  });
});
