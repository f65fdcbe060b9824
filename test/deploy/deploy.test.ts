import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { version } from '../../client/src/version.ts';
import { buildConsole } from '../../scripts/build-console.js';
import { packClient } from '../../scripts/pack-client.js';
import type { Credentials } from '../support/gateway.ts';
import { assertFinishes, KeyedWrites } from '../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
/** As in the Dockerfile. */
const user = 10001;

interface LockedPackage {
  dev?: boolean;
  optional?: boolean;
  devOptional?: boolean;
}

describe('the image', () => {
  const dockerfile = read('Dockerfile');

  test('starts the program itself, from a pinned base, as a user with a number', () => {
    const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: { node: string } };
    assert.deepEqual([...new Set(bases)], [`node:${dependencies.node}-bookworm-slim`]);
    assert.match(dockerfile, /^USER 10001:10001$/m);
    assert.match(dockerfile, /^CMD \["node", "src\/main\.ts"\]$/m);
    assert.doesNotMatch(dockerfile, /^ADD /m);
  });

  test('takes no file that is not there, and none that is not copied', () => {
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, names = '']) =>
      names.split(' '),
    );
    const sent = read('.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    assert.deepEqual([...new Set(copied)].toSorted(), sent.toSorted());
    for (const name of copied) assert.ok(existsSync(join(root, name)), name);
  });

  test('has what production needs: with that alone, as another user, on code that is read only, it serves', async (context) => {
    const [postgres, redis] = [await startPostgres(), await startRedis()];
    if (!postgres || !redis) return context.skip('there is no PostgreSQL or Redis');
    const org = await startOwnOrg();
    const folder = mkdtempSync(join(tmpdir(), 'handoff-image-'));
    const [app, data] = [join(folder, 'app'), join(folder, 'data')];
    context.after(async () => {
      await run('chmod', ['-R', 'u+w', folder]);
      rmSync(folder, { recursive: true });
      await Promise.all([org.close(), redis.stop(), postgres.stop()]);
    });
    await copyProduction(app);
    mkdirSync(data, { mode: 0o700 });
    await org.trust(join(data, 'secrets'));
    const identity = await otherUser();
    context.diagnostic(`as the user ${identity.uid ?? 'of the test'}`);
    if (identity.uid !== undefined) giveTo(user, folder, data);
    await run('chmod', ['-R', 'a-w', app]);
    const options = { cwd: app, ...identity, env: productionSettings(data, postgres, redis, org) };
    const command = ['--preserve-symlinks', '--preserve-symlinks-main'];
    const { stdout: made } = await run(
      process.execPath,
      [
        ...command,
        'src/cli/main.ts',
        'consumer',
        'create',
        '--name',
        'Test',
        '--allow',
        'bookings:write',
        '--json',
      ],
      { ...options, env: { ...options.env, DATA_DIR: join(data, 'command') } },
    );
    const child = spawn(process.execPath, [...command, 'src/main.ts'], {
      ...options,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    const url = await urlOf(child.stdout, ended);
    assert.equal((await fetch(`${url}/v1/healthz`)).status, 200);
    for (const path of ['/v1/docs', '/v1/docs/scalar.js', '/console/', '/client.tgz'])
      assert.equal((await fetch(url + path, { headers: { accept: 'text/html' } })).status, 200, path);
    const write = new KeyedWrites(org.org, JSON.parse(made) as Credentials).handOff();
    await assertFinishes(write, url);
    child.kill('SIGTERM');
    // It takes longer than shutdownSeconds with another code only.
    assert.deepEqual(await ended, [0, null]);
  });
});

/** Nothing else is in the environment. */
function productionSettings(
  data: string,
  postgres: { url: string },
  redis: { url: string },
  org: OwnOrg,
): NodeJS.ProcessEnv {
  return {
    NODE_ENV: 'production',
    CONSOLE_ENABLED: 'true',
    HANDOFF_ENVIRONMENT: 'dev',
    PORT: '0',
    METRICS_PORT: '0',
    DATA_DIR: data,
    SECRETS_DIR: join(data, 'secrets'),
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    ...org.env,
  };
}

test('the unit for systemd has no fault', async (context) => {
  const isThere = await run('systemd-analyze', ['--version']).then(Boolean, () => false);
  if (!isThere) return context.skip('there is no systemd-analyze');
  // It exits with 0 for unknown keys, too, and says so.
  const { stdout, stderr } = await run('systemd-analyze', [
    'verify',
    join(root, 'deploy/systemd/handoff-gateway.service'),
  ]);
  const faults = (stdout + stderr).split('\n').filter((line) => line.includes('handoff-gateway.service'));
  assert.deepEqual(faults, []);
});

/** What the Dockerfile copies, and the packages that `npm ci --omit=dev --omit=optional` leaves. */
async function copyProduction(app: string): Promise<void> {
  await buildConsole();
  for (const name of ['package.json', 'src', 'client/src', 'console/dist'])
    cpSync(join(root, name), join(app, name), { recursive: true, filter: (path) => !path.endsWith('.map') });
  packClient(join(app, 'client', `handoff-gateway-client-${version}.tgz`));
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, LockedPackage> };
  const kept = Object.entries(packages).filter(
    ([path, { dev, optional, devOptional }]) => path !== '' && !dev && !optional && !devOptional,
  );
  // Packages inside others come with them.
  const outer = kept.map(([path]) => path).filter((path) => path.lastIndexOf('node_modules') === 0);
  for (const path of outer.filter((each) => !/node_modules\/node(-bin-setup)?$/.test(each))) {
    mkdirSync(dirname(join(app, path)), { recursive: true });
    symlinkSync(join(root, path), join(app, path));
  }
}

/** Another user, where this one may become it and that one may read the program. */
async function otherUser(): Promise<{ uid?: number; gid?: number }> {
  const identity = { uid: user, gid: user };
  const mayRead = run(
    process.execPath,
    ['-p', `fs.readdirSync('${root}/node_modules/fastify').length`],
    identity,
  );
  return process.getuid?.() === 0 && (await mayRead.then(Boolean, () => false)) ? identity : {};
}

function giveTo(uid: number, folder: string, data: string): void {
  chmodSync(folder, 0o755);
  for (const path of [data, ...globSync(`${data}/**`)]) chownSync(path, uid, uid);
}

async function urlOf(output: NodeJS.ReadableStream, ended: Promise<unknown>): Promise<string> {
  const lines: string[] = [];
  const ready = (async () => {
    for await (const line of createInterface({ input: output })) {
      lines.push(line);
      if (line.includes('"msg":"ready"')) return (JSON.parse(line) as { url: string }).url;
    }
    return undefined;
  })();
  const url = await Promise.race([ready, ended.then(() => undefined)]);
  assert.ok(url, lines.join('\n'));
  return url;
}
