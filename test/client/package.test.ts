import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, globSync, realpathSync, symlinkSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { version } from '../../client/src/version.ts';
import { packClient } from '../../scripts/pack-client.js';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { assertProblem } from '../support/problems.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

/** What a program of a partner's does, on any Node that the package is for. */
const calls = `
async function run() {
  const client = new HandoffClient(JSON.parse(process.env.CLIENT));
  const { data: [member] } = await client.members.list({ limit: 1 }).page();
  const details = { n: new JsonNumber('12345678901234567890'), net: 1.5 };
  const { external_id } = await client.handOff({
    type: 'quote', trip_id: crypto.randomUUID(), member_id: member.id,
    result: { name: 'Hotel', source: 'hotelbeds', details },
  });
  const quote = await client.quotes.retrieve(external_id);
  const missing = await client.quotes.retrieve(crypto.randomUUID()).catch((error) => error);
  console.log(String(quote.details.n), quote.details.net, missing instanceof HandoffProblem, missing.code);
}
run();
`;
const names = '{ HandoffClient, HandoffProblem, JsonNumber }';
const programs = {
  'program.mjs': `import ${names} from '@handoff-gateway/client';${calls}`,
  'program.cjs': `const ${names} = require('@handoff-gateway/client');${calls}`,
};

/** What a strict compiler has to accept, and the lines that it must not. */
const typed = `
import { HandoffClient, unwrapWebhook, type Quote } from '@handoff-gateway/client';
const client = new HandoffClient({ baseUrl: 'https://example.com', apiKey: 'k', apiSecret: 's', maxRetries: 0 });
export async function use(): Promise<string | null> {
  for await (const quote of client.quotes.list({ limit: 2 })) {
    const same: Quote = await client.quotes.update(quote.id, { details: quote.details ?? {} });
    return same.status;
  }
  const event = await unwrapWebhook('{}', { 'webhook-id': '1' }, 'whsec_');
  if (event.type === 'quote.created') return event.data.name;
  // @ts-expect-error an unknown field
  await client.quotes.create({ colour: 'red' });
  // @ts-expect-error no number
  client.quotes.list({ limit: 'many' });
  const handoff = { type: 'quote', trip_id: '', member_id: '', result: { name: '', source: '', details: {} } } as const;
  const answer = await client.handOff(handoff);
  // @ts-expect-error one that was stored has no record in the CRM yet
  answer.id;
  if (answer.status === 'created') return answer.id;
  const stored: 'accepted' | 'awaiting_approval' = answer.status;
  return stored;
}
`;

/** Files of a strict program, and the options to compile it with. */
const projects: Record<string, { file: string; options: string[] }> = {
  'an ES module': { file: 'typed.mts', options: ['--module', 'nodenext'] },
  'CommonJS, as Node 20 takes it': { file: 'typed.cts', options: ['--module', 'node16'] },
  'CommonJS for a bundler': {
    file: 'typed.ts',
    options: ['--module', 'commonjs', '--moduleResolution', 'bundler'],
  },
};

/** The package as a partner gets it: by `npm install` from a service. */
describe('the package', () => {
  let installation: Installation;
  let gateway: GatewayProcess;
  let folder: string;

  before(async () => {
    installation = await createInstallation();
    const sources = copySources(join(installation.dataDir, 'sources'));
    gateway = await installation.start({}, sources);
    folder = await mkdtemp(join(tmpdir(), 'handoff-client-'));
    await writeFile(join(folder, 'package.json'), '{}');
    for (const [name, text] of Object.entries(programs)) await writeFile(join(folder, name), text);
    for (const { file } of Object.values(projects)) await writeFile(join(folder, file), typed);
  });
  after(async () => {
    await installation.remove();
    await rm(folder, { recursive: true });
  });
  const ask = (headers: Record<string, string> = {}) => fetch(`${gateway.url}/client.tgz`, { headers });

  test('is not there before it is made, and the answer says how', async () => {
    const problem = await assertProblem(await ask(), 404, 'not_found');
    assert.match(problem.detail, /`npm run client`/);
    packClient(join(installation.dataDir, 'sources/client', `handoff-gateway-client-${version}.tgz`));
    assert.equal((await ask()).status, 200);
  });

  test('is the same, byte for byte, whenever it is made, and not sent again to whom has it', async () => {
    const answer = await ask();
    assert.equal(answer.headers.get('content-type'), 'application/gzip');
    const bytes = Buffer.from(await answer.arrayBuffer());
    const again = packClient(join(folder, 'again.tgz'));
    assert.ok(bytes.equals(await readFile(again)));
    const second = await ask({ 'if-none-match': String(answer.headers.get('etag')) });
    assert.equal(second.status, 304);
  });

  test('is installed by npm: the programs, their types and what people read, and nothing else', async () => {
    const own = ['--no-audit', '--no-fund', '--cache', join(folder, 'cache')];
    await run('npm', ['install', ...own, `${gateway.url}/client.tgz`], { cwd: folder });
    const installed = join(folder, 'node_modules/@handoff-gateway/client');
    const files = globSync('**/*.*', { cwd: installed }).concat(globSync('LICENSE', { cwd: installed }));
    const others = files.filter((path) => !/^dist\/(?:commonjs\/)?[\w-]+(\.d\.ts|\.js)$/.test(path));
    assert.deepEqual(others.toSorted(), [
      'LICENSE',
      'README.md',
      'dist/commonjs/package.json',
      'package.json',
    ]);
    assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts'));
  });

  for (const [kind, { file, options }] of Object.entries(projects)) {
    test(`has types that a strict program can use: ${kind}`, async () => {
      const strict = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022'];
      await run(
        join(root, 'node_modules/.bin/tsc'),
        [...strict, ...options, '--lib', 'es2022,dom', '--types', '', file],
        { cwd: folder },
      ).catch((error: { stdout: string }) => assert.fail(error.stdout));
    });
  }

  for (const node of nodes()) {
    for (const program of Object.keys(programs)) {
      test(`works with ${node} as ${program}`, async (context) => {
        const { stdout: found } = await run(node, ['--version']);
        if (Number(/^v(\d+)/.exec(found)?.[1]) < 20) return context.skip('it is older than Node 20');
        context.diagnostic(found.trim());
        const { console: credentials } = await installation.credentials();
        const client = JSON.stringify({ baseUrl: gateway.url, ...credentials });
        const { stdout } = await run(node, [program], { cwd: folder, env: { CLIENT: client } });
        assert.equal(stdout, '12345678901234567890 1.5 true not_found\n');
      });
    }
  }
});

/** What the service runs from, without a package of the client. */
function copySources(folder: string): string {
  for (const name of ['package.json', 'src', 'simulators', 'salesforce', 'client/src', 'console'])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** This Node, and every other one that the machine has. */
function nodes(): string[] {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const found = [...folders, '/usr/bin', '/usr/local/bin']
    .map((path) => join(path, 'node'))
    .filter((path) => existsSync(path))
    .map((path) => realpathSync(path));
  return [...new Set([process.execPath, ...found])];
}
