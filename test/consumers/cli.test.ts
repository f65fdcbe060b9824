import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { createTestConsumers, createTestSecrets } from './fixture.ts';

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

describe('handoff consumer', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  beforeEach(async () => {
    store = await createTestSecrets();
  });
  afterEach(() => store.remove());
  const run = (...args: string[]) =>
    new Promise<Outcome>((resolve) => {
      const script = join(import.meta.dirname, 'cli-process.ts');
      execFile(process.execPath, [script, store.dir, 'consumer', ...args], (error, stdout, stderr) => {
        resolve({ code: Number(error?.code ?? 0), stdout, stderr });
      });
    });
  const createArgs = [
    'create',
    '--name',
    'Web shop',
    '--allow',
    'quotes:read,write',
    '--allow',
    'bookings:read',
  ];

  it('creates a consumer that can authenticate, and prints exactly what machines expect', async () => {
    const { code, stdout, stderr } = await run(...createArgs, '--allow', 'quotes:read', '--json');
    assert.deepEqual([code, stderr], [0, '']);
    const printed = JSON.parse(stdout);
    assert.deepEqual(Object.keys(printed), ['id', 'name', 'apiKey', 'apiSecret', 'permissions']);
    assert.equal(printed.name, 'Web shop');
    assert.deepEqual(printed.permissions, [
      { resource: 'quotes', actions: ['read', 'write'] },
      { resource: 'bookings', actions: ['read'] },
    ]);
    const { consumers } = createTestConsumers(store.secrets);
    await consumers.start();
    assert.equal((await consumers.authenticate(printed)).result, 'accepted');
    await consumers.stop();
  });

  it('lists and shows consumers, for people and machines, without any secret', async () => {
    assert.match((await run('list')).stdout, /no consumers/);
    const { id, apiKey } = JSON.parse((await run(...createArgs, '--json')).stdout);
    const shown = await run('show', id, '--json');
    const record = JSON.parse(shown.stdout);
    assert.deepEqual(
      [record.id, record.apiKey, record.rotatedAt, record.expiresAt],
      [id, apiKey, null, null],
    );
    assert.deepEqual(Object.keys(record.credentials[0]), ['apiKey', 'state', 'createdAt', 'expiresAt']);
    assert.deepEqual(JSON.parse((await run('list', '--json')).stdout), [record]);
    const forPeople = `${(await run('list')).stdout}${(await run('show', id)).stdout}`;
    assert.match(forPeople, new RegExp(`${id}[^]*Web shop[^]*quotes:read,write bookings:read`));
    assert.doesNotMatch(forPeople + shown.stdout, /hgs_|"hash"/);
  });

  it('shows the secret to the person who creates', async () => {
    assert.match((await run(...createArgs)).stdout, /API secret\s+hgs_\w{49}\n[^]*cannot be shown again/);
  });

  it('says what is wrong and what is allowed, with exit code 2, and creates nothing', async () => {
    const name = ['--name', 'x'];
    const cases: [string[], RegExp][] = [
      [['create', '--allow', 'quotes:read'], /--name is missing/],
      [['create', ...name], /--allow is missing.*quotes:read,write/],
      [['create', ...name, '--allow', 'quote:read'], /"quote:read".*members, quotes, bookings, consumers/],
      [['create', ...name, '--allow', 'quotes:raed'], /"quotes:raed".*read, write, delete/],
      [['create', ...name, '--allow', 'quotes'], /"quotes"/],
      [['create', ...name, '--allow', 'quotes:'], /"quotes:"/],
      [['create', ...name, '--allow', 'quotes:read:write'], /"quotes:read:write"/],
      [['create', '--name', '', '--allow', 'quotes:read'], /name must have 1 to 100 characters/],
      [['create', '--name', 'x'.repeat(101), '--allow', 'quotes:read'], /name must have 1 to 100 characters/],
      [['create', '--name', 'a\u001b[2Jb', '--allow', 'quotes:read'], /no control characters/],
      [['create', ...name, '--allow', 'quotes:read', '--what'], /unknown option '--what'/],
      [['show', '../keys/pepper'], /is not the id of a consumer/],
      [['show'], /missing required argument 'id'/],
    ];
    const outcomes = await Promise.all(cases.map(([args]) => run(...args)));
    for (const [i, { code, stdout, stderr }] of outcomes.entries()) {
      assert.match(stderr, cases[i]?.[1] ?? /never/);
      assert.deepEqual([code, stdout], [2, ''], stderr);
    }
    assert.deepEqual(await store.secrets.list('consumers'), []);
  });

  it('ends with code 1 for a consumer that is not there', async () => {
    const { code, stderr } = await run('show', 'con_0000000000000000');
    assert.deepEqual([code, stderr], [1, 'error: There is no consumer con_0000000000000000.\n']);
  });
});
