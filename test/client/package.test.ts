import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { startGateway, type TestGateway } from '../support/gateway.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

/** What a program of a partner's does, on any Node that the package is for. */
const program = `
import { HandoffClient, HandoffProblem, JsonNumber } from '@handoff-gateway/client';
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
`;

/** What a strict compiler has to accept, and the two lines that it must not. */
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
  return (await client.handOff({ type: 'quote', trip_id: '', member_id: '', result: { name: '', source: '', details: {} } })).id;
}
`;

describe('the package', () => {
  let folder: string;
  let files: string[];
  let gateway: TestGateway;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handoff-client-'));
    const packed = await run('npm', ['pack', '--json', '--pack-destination', folder], {
      cwd: join(root, 'client'),
    });
    const [{ filename, files: list }] = JSON.parse(packed.stdout.slice(packed.stdout.indexOf('[')));
    files = list.map(({ path }: { path: string }) => path);
    const target = join(folder, 'node_modules/@handoff-gateway');
    await mkdir(target, { recursive: true });
    await run('tar', ['-xzf', join(folder, filename), '-C', target]);
    await symlink(join(target, 'package'), join(target, 'client'));
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await writeFile(join(folder, 'program.mjs'), program);
    await writeFile(join(folder, 'typed.ts'), typed);
    gateway = await startGateway();
  });
  after(async () => {
    await gateway.stop();
    await rm(folder, { recursive: true });
  });

  test('holds the program, its types and what people read, and nothing else', () => {
    const others = files.filter((path) => !/^dist\/[\w-]+(\.d\.ts|\.js)$/.test(path));
    assert.deepEqual(others.toSorted(), ['LICENSE', 'README.md', 'package.json']);
    assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts'));
  });

  test('has types that a strict program can use, with those of Node and of browsers', async () => {
    const options = [
      '--noEmit',
      '--strict',
      '--exactOptionalPropertyTypes',
      '--module',
      'nodenext',
      '--target',
      'es2022',
    ];
    await run(
      join(root, 'node_modules/.bin/tsc'),
      [...options, '--lib', 'es2022,dom', '--types', '', 'typed.ts'],
      {
        cwd: folder,
      },
    ).catch((error: { stdout: string }) => assert.fail(error.stdout));
  });

  for (const node of nodes()) {
    test(`works with ${node}`, async (context) => {
      const { stdout: version } = await run(node, ['--version']);
      if (Number(/^v(\d+)/.exec(version)?.[1]) < 20) return context.skip('it is older than Node 20');
      context.diagnostic(version.trim());
      const client = JSON.stringify({ baseUrl: gateway.url, ...gateway.console });
      const { stdout } = await run(node, ['program.mjs'], { cwd: folder, env: { CLIENT: client } });
      assert.equal(stdout, '12345678901234567890 1.5 true not_found\n');
    });
  }
});

/** This Node, and every other one that the machine has. */
function nodes(): string[] {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const found = [...folders, '/usr/bin', '/usr/local/bin']
    .map((path) => join(path, 'node'))
    .filter((path) => existsSync(path))
    .map((path) => realpathSync(path));
  return [...new Set([process.execPath, ...found])];
}
