import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { packClient } from '../../scripts/pack-client.js';
import { eventually } from '../support/eventually.ts';
import { type Credentials, useGateway } from '../support/gateway.ts';
import { freePort } from '../support/ports.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { codeBlocks, readPage, root } from './pages.ts';

const run = promisify(execFile);

const languages = {
  bash: { extension: 'sh', command: 'bash' },
  ts: { extension: 'mts', command: process.execPath },
  python: { extension: 'py', command: 'python3' },
  java: { extension: 'java', command: 'java' },
} as const;
type Language = keyof typeof languages;

/** The programs of a page in one language, in their order. */
function programs(page: string, language: Language): string[] {
  return codeBlocks(readPage(`docs/partners/${page}.md`))
    .filter((block) => block.language === language)
    .map(({ text }) => text);
}

const [pythonHelper = '', pythonWrite = ''] = programs('retries', 'python');
const writes: Record<'bash' | 'ts' | 'python', string> = {
  bash: programs('retries', 'bash').join('\n'),
  ts: programs('retries', 'ts').join('\n'),
  python: pythonWrite,
};

/** The samples of the partners' pages, as a reader saves and runs them, with a test key. */
describe("the partners' pages", () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600' });
  let proxy: TcpProxy;
  let credentials: Credentials;
  let folder: string;

  before(async () => {
    proxy = await startTcpProxy(gateway.url);
    folder = await mkdtemp(join(tmpdir(), 'handoff-partners-'));
    credentials = await makeConsumer();
    writeFileSync(join(folder, 'package.json'), '{}');
    writeFileSync(join(folder, 'gateway.py'), pythonHelper);
    const options = ['--no-audit', '--no-fund', '--cache', join(folder, 'cache')];
    await run('npm', ['install', ...options, packClient(join(folder, 'client.tgz'))], { cwd: folder });
    await mkdir(join(folder, 'node_modules/@types'), { recursive: true });
    for (const name of ['node', 'undici-types'])
      symlinkSync(
        join(root, name === 'node' ? 'node_modules/@types/node' : 'node_modules/undici-types'),
        join(folder, 'node_modules', name === 'node' ? '@types/node' : name),
      );
  });
  after(async () => {
    await proxy.close();
    await rm(folder, { recursive: true });
  });

  /** A test consumer with a private key beside its pair. */
  async function makeConsumer(): Promise<Credentials> {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    writeFileSync(join(folder, 'partner.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const body = {
      ...{ name: 'Partner A', mode: 'test', publicKeys: [publicKey.export({ format: 'jwk' })] },
      permissions: [
        { resource: 'members', actions: ['read'] },
        { resource: 'quotes', actions: ['read', 'write', 'delete'] },
        { resource: 'bookings', actions: ['read', 'write', 'delete'] },
        { resource: 'webhooks', actions: ['read', 'write', 'delete'] },
      ],
    };
    const made = await gateway.request('/v1/admin/consumers', { method: 'POST', as: gateway.admin, body });
    assert.equal(made.status, 201);
    return (await made.json()) as Credentials;
  }

  function environment(more: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    const { id, apiKey, apiSecret } = credentials;
    const own = { HANDOFF_URL: gateway.url, HANDOFF_API_KEY: apiKey, HANDOFF_API_SECRET: apiSecret };
    return { ...process.env, ...own, HANDOFF_CLIENT_ID: id, ...more };
  }

  function save(name: string, language: Language, text: string): string {
    const file = `${name}.${languages[language].extension}`;
    writeFileSync(join(folder, file), text);
    return file;
  }

  async function runProgram(name: string, language: Language, text: string, env: NodeJS.ProcessEnv = {}) {
    assert.notEqual(text, '', `${name} has no program in ${language}`);
    const file = save(name, language, text);
    const { stdout } = await run(languages[language].command, [file], { cwd: folder, env: environment(env) });
    return stdout;
  }

  async function quotesOf(filter: string): Promise<{ id: string }[]> {
    const list = await gateway.request(`/v1/quotes?${filter}`, { as: credentials });
    return ((await list.json()) as { data: { id: string }[] }).data;
  }

  for (const language of ['bash', 'ts', 'python', 'java'] as const)
    test(`sign in in all three ways in ${language}`, async (context) => {
      if (await isMissing(language, context)) return;
      const name = language === 'java' ? 'Connect' : 'connect';
      const stdout = await runProgram(name, language, programs('authentication', language).join('\n'));
      assert.equal(stdout.trim().replaceAll('\n', ', '), 'Partner A, Partner A, Partner A');
    });

  for (const language of ['bash', 'ts', 'python'] as const) {
    test(`hand off for the one member with an address in ${language}`, async (context) => {
      if (await isMissing(language, context)) return;
      const program = programs('handoff', language).join('\n');
      assert.match(await runProgram('handoff', language, program), /created/);
      const unknown = program.replaceAll('amara.okafor.1@', 'nobody@');
      await assert.rejects(runProgram('handoff', language, unknown), /not one member/);
    });

    test(`make one record in ${language} although the first answer is lost`, async (context) => {
      if (await isMissing(language, context)) return;
      const name = `Hotel ${randomUUID()}`;
      const trip = randomUUID();
      const quote = {
        trip_id: trip,
        member_id: '8673c1d4-1752-87ae-aa59-227b6cc68c14',
        name,
        source: 'a',
        details: {},
      };
      writeFileSync(join(folder, 'quote.json'), JSON.stringify(quote));
      const lost = proxy.holdAnswers('POST /v1/quotes');
      const program = writes[language].replaceAll('Hotel Miramar', name);
      const running = runProgram('write', language, program, {
        HANDOFF_URL: proxy.url.replace(/\/$/, ''),
        KEY: randomUUID(),
      });
      await Promise.race([lost.hit(), running]);
      lost.cut();
      const stdout = await running;
      const found = await quotesOf(`q=${encodeURIComponent(name)}`);
      assert.equal(found.length, 1);
      assert.ok(stdout.includes(found[0]?.id ?? 'none'), stdout);
      if (language !== 'bash') assert.match(stdout, /^found /);
    });
  }

  test('raise NoAnswer with the key in Python where no answer ever comes', async (context) => {
    if (await isMissing('python', context)) return;
    const away = await freePort();
    const program = `import gateway\ngateway.TRIES = 2\n${pythonWrite}`;
    const stdout = await runProgram('away', 'python', program, { HANDOFF_URL: `http://127.0.0.1:${away}` });
    assert.match(stdout, /^no answer: repeat with [0-9a-f-]{36}\n$/);
  });

  test('raise NoAnswer with the key in Python where answers end within their headers', async (context) => {
    if (await isMissing('python', context)) return;
    const server = createServer((socket) => {
      socket.once('data', () => socket.end('HTTP/1.1 201 Created\r\nx-request-id: a'));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    context.after(async () => {
      server.close();
    });
    const program = `import gateway\ngateway.TRIES = 2\n${pythonWrite}`;
    const HANDOFF_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const stdout = await runProgram('cut', 'python', program, { HANDOFF_URL });
    assert.match(stdout, /^no answer: repeat with [0-9a-f-]{36}\n$/);
  });

  for (const language of ['ts', 'python'] as const) {
    test(`change, read, list and delete in ${language}`, async (context) => {
      if (await isMissing(language, context)) return;
      const stdout = await runProgram('records', language, programs('records', language).join('\n'));
      assert.equal(stdout, 'Hotel Miramar, sea view unchanged\nlisted 1\ndeleted\n');
    });

    test(`receive webhooks once in ${language}`, async (context) => {
      if (await isMissing(language, context)) return;
      await receiveOnce(language);
    });
  }

  /** A delivery that is sent again is not processed again, and one that nobody signed is refused. */
  async function receiveOnce(language: 'ts' | 'python'): Promise<void> {
    const PORT = String(await freePort());
    const [receive = ''] = programs('events', language);
    const cwd = await mkdtemp(join(folder, 'receiver-'));
    const [create = ''] = programs('events', 'bash');
    const WEBHOOK_URL = `http://127.0.0.1:${PORT}/`;
    const endpoint = JSON.parse(await runProgram('endpoint', 'bash', create, { WEBHOOK_URL })) as {
      id: string;
      secret: string;
    };
    const file = join('..', save('receive', language, receive));
    const env = environment({ PORT, WEBHOOK_SECRET: endpoint.secret });
    const receiver = spawn(languages[language].command, [file], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines: string[] = [];
    createInterface(receiver.stdout).on('line', (line) => lines.push(line));
    try {
      const forged = await eventually(() => fetch(WEBHOOK_URL, { method: 'POST', body: '{}' }));
      assert.equal(forged.status, 400);
      const path = `/v1/webhook-endpoints/${endpoint.id}`;
      const post = (end: string) => gateway.request(path + end, { method: 'POST', as: credentials });
      assert.equal((await post('/test')).status, 202);
      const delivered = await eventually(async () => {
        const list = await gateway.request(`${path}/deliveries?status=delivered`, { as: credentials });
        const { data } = (await list.json()) as { data: { id: string }[] };
        assert.equal(data.length, 1);
        return data[0]?.id;
      });
      assert.equal((await post(`/deliveries/${delivered}/resend`)).status, 202);
      assert.equal((await post('/test')).status, 202);
      await eventually(async () => {
        const list = await gateway.request(`${path}/deliveries?status=delivered`, { as: credentials });
        const { data } = (await list.json()) as { data: { attempts: unknown[] }[] };
        assert.deepEqual(data.map(({ attempts }) => attempts.length).toSorted(), [1, 2]);
      });
      // The queue is worked through in order: what was sent before is processed by then.
      const [program = ''] = programs('handoff', 'ts');
      await runProgram('last', 'ts', program);
      await eventually(() => assert.match(lines.at(-1) ?? '', /^processed (quote|handoff)\.created /));
      const pings = lines.filter((line) => line === `processed ping ${endpoint.id}`);
      assert.equal(pings.length, 2);
    } finally {
      await stop(receiver);
    }
    assert.equal(
      (await gateway.request(`/v1/webhook-endpoints/${endpoint.id}`, { method: 'DELETE', as: credentials }))
        .status,
      204,
    );
  }

  test('book a table and cancel it', async () => {
    const stdout = await runProgram('reservations', 'bash', programs('reservations', 'bash').join('\n'));
    assert.match(stdout, /"available":true/);
    assert.match(stdout, /"status":"confirmed"/);
    assert.match(stdout, /204\n$/);
  });

  for (const language of ['bash', 'ts', 'python'] as const)
    test(`hand a trip off, find it again and read it in ${language}`, async (context) => {
      if (await isMissing(language, context)) return;
      const stdout = await runProgram('trips', language, programs('trips', language).join('\n'));
      assert.equal(stdout, 'created,created\nexisting,existing\nquotes: 2\n');
    });

  test('have TypeScript that compiles as it stands', async () => {
    const pages = ['authentication', 'handoff', 'trips', 'retries', 'records', 'events', '../quickstart'];
    const files = pages.map((page, i) => save(`types-${i}`, 'ts', programs(page, 'ts').join('\n')));
    const strict = ['--strict', '--noUncheckedIndexedAccess'];
    const options = ['--noEmit', ...strict, '--module', 'nodenext', '--target', 'es2024', '--types', 'node'];
    await run(join(root, 'node_modules/.bin/tsc'), [...options, ...files], { cwd: folder }).catch(
      (error: { stdout: string }) => assert.fail(error.stdout),
    );
  });
});

async function isMissing(language: Language, context: TestContext): Promise<boolean> {
  const { command } = languages[language];
  const isThere = await run(command, ['--version']).then(Boolean, () => false);
  if (!isThere) context.skip(`there is no ${command}`);
  return !isThere;
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
