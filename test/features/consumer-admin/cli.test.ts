import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, it } from 'node:test';
import { readChange } from '../../../src/features/consumer-admin/cli/consumer-options.ts';
import { createTestConsumers, createTestSecrets } from '../../identity/consumers/fixture.ts';
import { makeKeys } from '../../support/assertions.ts';
import { CommandLine } from '../../support/command-line.ts';

describe('handoff consumer', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  beforeEach(async () => {
    store = await createTestSecrets();
  });
  afterEach(() => store.remove());
  const commands = new CommandLine(join(import.meta.dirname, 'cli-commands.ts'));
  after(() => commands.stop());
  const run = (...args: string[]) => commands.run([store.dir, 'consumer', ...args]);
  const file = (name: string, text: string | Buffer) => {
    writeFileSync(join(store.folder, name), text);
    return join(store.folder, name);
  };
  const createArgs = [
    'create',
    '--name',
    'Web shop',
    '--allow',
    'quotes:read,write',
    '--allow',
    'bookings:read',
  ];

  it('takes public keys from files, and shows them by name', async () => {
    const publicKey = createPublicKey(makeKeys('EdDSA').privateKey).export({ type: 'spki', format: 'pem' });
    const keys = [
      file('public.pem', publicKey),
      file('key.json', JSON.stringify({ ...makeKeys('ES256').jwk, kid: 'mine' })),
    ];
    const options = keys.flatMap((path) => ['--public-key', path]);
    const { id } = JSON.parse((await run(...createArgs, ...options, '--json')).stdout);
    assert.match((await run('show', id)).stdout, /public keys {2}\S{43}, mine/);
    const { stdout } = await run('update', id, '--public-key', 'none', '--json');
    assert.deepEqual(JSON.parse(stdout).publicKeys, []);
  });

  it('takes nothing private, and does not repeat it', () => {
    const { privateKey } = makeKeys('ES256');
    const refused = {
      'private.pem': privateKey.export({ type: 'pkcs8', format: 'pem' }),
      'private.json': JSON.stringify(privateKey.export({ format: 'jwk' })),
      'text.txt': 'a secret text',
    };
    const paths = Object.entries(refused).map(([name, text]) => file(name, text));
    for (const path of [...paths, '/nothing/here']) {
      assert.throws(
        () => readChange({ allow: [], deny: [], publicKey: [path] }),
        ({ message }: Error) =>
          /private|a public key in PEM|can't be read/.test(message) &&
          !/a secret text|MIGHAgEA/.test(message),
      );
    }
  });

  it('creates a consumer that can authenticate, and prints exactly what machines expect', async () => {
    const { code, stdout, stderr } = await run(...createArgs, '--allow', 'webhooks:read', '--json');
    assert.deepEqual([code, stderr], [0, '']);
    const printed = JSON.parse(stdout);
    assert.deepEqual(Object.keys(printed), ['id', 'name', 'apiKey', 'apiSecret', 'permissions']);
    assert.equal(printed.name, 'Web shop');
    assert.deepEqual(printed.permissions, [
      { resource: 'quotes', actions: ['read', 'write'] },
      { resource: 'bookings', actions: ['read'] },
      { resource: 'webhooks', actions: ['read'] },
    ]);
    const { consumers } = createTestConsumers(store.secrets);
    await consumers.start();
    assert.equal((await consumers.authenticate(printed)).result, 'accepted');
    await consumers.stop();
  });

  it('lists and shows consumers, for people and machines, without any secret', async () => {
    assert.match((await run('list')).stdout, /No consumers yet/);
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
    assert.match((await run(...createArgs)).stdout, /API secret\s+hgs_\w{49}\n[^]*can't see it again/);
  });

  it('rotates: the new pair is printed, and the old one stays valid as long as it says', async () => {
    const old = JSON.parse((await run(...createArgs, '--json')).stdout);
    const { code, stdout } = await run('rotate', old.id, '--grace-window-hours', '0.5', '--json');
    assert.equal(code, 0);
    const rotation = JSON.parse(stdout);
    assert.deepEqual(Object.keys(rotation), ['id', 'apiKey', 'apiSecret', 'rotatedAt', 'previous']);
    assert.equal(rotation.previous.apiKey, old.apiKey);
    assert.equal(Date.parse(rotation.previous.expiresAt) - Date.parse(rotation.rotatedAt), 1_800_000);
    const forPeople = (await run('rotate', old.id)).stdout;
    assert.match(forPeople, /API secret\s+hgs_\w{49}\n[^]*can't see it again[^]*stays valid until \d{4}-/);
    const { consumers } = createTestConsumers(store.secrets);
    await consumers.start();
    for (const pair of [old, rotation]) assert.equal((await consumers.authenticate(pair)).result, 'accepted');
    await consumers.stop();
  });

  it('changes what is named and nothing else', async () => {
    const { id } = JSON.parse((await run(...createArgs, '--json')).stdout);
    const fingerprint = 'ab'.repeat(32);
    const set = [
      '--allow',
      'quotes:read,write@own[name,status]+approval',
      '--deny',
      'bookings:read',
      '--disable',
      '--rate-limit',
      '7',
    ];
    const more = [
      '--valid-until',
      '2030-01-01T00:00:00Z',
      '--allow-address',
      '::1',
      '--allow-address',
      '10.0.0.0/8',
    ];
    const names = ['--certificate-name', 'A.example', '--allowance', '10000/day', '--people', 'groups=a=b'];
    const outcome = await run(
      'update',
      id,
      ...set,
      ...more,
      ...names,
      '--certificate',
      fingerprint,
      '--json',
    );
    assert.equal(outcome.code, 0, outcome.stderr);
    const changed = JSON.parse(outcome.stdout);
    assert.deepEqual(changed.permissions, [
      {
        resource: 'quotes',
        actions: ['read', 'write'],
        records: 'own',
        approval: true,
        fields: ['name', 'status'],
      },
    ]);
    const limits = [
      changed.enabled,
      changed.validUntil,
      changed.rateLimitPerMinute,
      changed.allowedAddresses,
    ];
    assert.deepEqual(limits, [false, '2030-01-01T00:00:00.000Z', 7, ['::1', '10.0.0.0/8']]);
    assert.deepEqual(changed.certificateFingerprints, [fingerprint]);
    assert.deepEqual(changed.certificateNames, ['a.example']);
    assert.deepEqual(changed.people, [{ claim: 'groups', value: 'a=b' }]);
    assert.deepEqual(changed.allowance, { requests: 10_000, per: 'day' });
    assert.equal(changed.name, 'Web shop');
    const listed = (await run('list')).stdout;
    assert.match(
      listed,
      /Web shop +disabled +unknown\n {2}quotes:read,write@own\[name,status\]\+approval \(until 2030-01-01T00:00:00.000Z\)/,
    );
    assert.ok(listed.split('\n').every((line) => line.length <= 100));
    assert.match(
      (await run('show', id)).stdout,
      /state +disabled[^]*rate limit +7[^]*addresses +::1, 10\.0\.0\.0\/8/,
    );
    const none = ['valid-until', 'rate-limit', 'allow-address', 'certificate'].flatMap((one) => [
      `--${one}`,
      'none',
    ]);
    const cleared = JSON.parse(
      (await run('update', id, ...none, '--enable', '--name', 'x', '--json')).stdout,
    );
    const { enabled, validUntil, rateLimitPerMinute, allowedAddresses, certificateFingerprints, name } =
      cleared;
    assert.deepEqual(
      [enabled, validUntil, rateLimitPerMinute, allowedAddresses, certificateFingerprints, name],
      [true, null, null, [], [], 'x'],
    );
    assert.deepEqual(cleared.permissions, changed.permissions);
  });

  it('revokes, and says so once', async () => {
    const { id } = JSON.parse((await run(...createArgs, '--json')).stdout);
    assert.deepEqual(JSON.parse((await run('revoke', id, '--json')).stdout), { id, revoked: true });
    const again = await run('revoke', id);
    assert.deepEqual([again.code, again.stderr], [1, "error: There's no consumer with this id.\n"]);
    assert.deepEqual(JSON.parse((await run('list', '--json')).stdout), []);
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
      [['create', '--name', '', '--allow', 'quotes:read'], /name must have 1 to 100 printable characters/],
      [
        ['create', '--name', 'x'.repeat(101), '--allow', 'quotes:read'],
        /name must have 1 to 100 printable characters/,
      ],
      [['create', '--name', 'a\u001b[2Jb', '--allow', 'quotes:read'], /printable characters/],
      [['create', ...name, '--allow', 'quotes:read', '--what'], /unknown option '--what'/],
      [['create', ...name, '--allow', 'members:read@own'], /"members:read@own"/],
      [['create', ...name, '--allow', 'members:read+approval'], /"members:read\+approval"/],
      [['create', ...name, '--allow', 'quotes:read', '--allow', 'quotes:write'], /is listed already/],
      [['update', 'con_0000000000000000'], /Name at least one option/],
      [['update', 'con_0000000000000000', '--enable', '--disable'], /Use either/],
      [['update', 'con_0000000000000000', '--allowance', '10000'], /such as 10000\/day/],
      [
        ['update', 'con_0000000000000000', '--rate-limit', '0'],
        /"0" isn't valid\. Use a whole number from 1/,
      ],
      [['update', 'con_0000000000000000', '--valid-until', 'soon'], /"soon" isn't a time/],
      [['update', 'con_0000000000000000', '--allow-address', 'host'], /allowedAddresses must be an IPv4/],
      [['update', 'con_0000000000000000', '--certificate', 'ab'], /"ab" isn't the SHA-256/],
      [['show', '../../keys/pepper'], /isn't a consumer id/],
      [['rotate', '../../keys/pepper'], /isn't a consumer id/],
      [
        ['rotate', 'con_0000000000000000', '--grace-window-hours', '-1'],
        /"-1" isn't a number of hours from 0/,
      ],
      [['rotate', 'con_0000000000000000', '--grace-window-hours', 'day'], /"day" isn't a number of hours/],
      [['revoke', 'x'], /isn't a consumer id/],
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
    assert.deepEqual([code, stderr], [1, "error: There's no consumer con_0000000000000000.\n"]);
  });
});
