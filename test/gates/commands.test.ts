import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';

const root = join(import.meta.dirname, '../..');
const installed = 'node_modules/.package-lock.json';

interface Lock {
  packages: Record<string, { optionalDependencies?: Record<string, string> }>;
}

const readLock = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Lock;

describe('a command beside a service that runs from the same folder', () => {
  let tree: string;

  before(() => {
    tree = mkdtempSync(join(tmpdir(), 'handoff-commands-'));
    for (const part of [
      'bin',
      'scripts',
      'src',
      'simulators',
      'salesforce',
      'package.json',
      'package-lock.json',
    ])
      cpSync(join(root, part), join(tree, part), { recursive: true });
    // Instead of npm: it says that it was called.
    mkdirSync(join(tree, 'fake'));
    writeFileSync(join(tree, 'fake/npm'), `#!/bin/sh\ntouch ${join(tree, 'called')}\nexit 1\n`, {
      mode: 0o755,
    });
  });
  after(() => rmSync(tree, { recursive: true }));

  /** The packages that are installed here, without some. */
  function install(isLeftOut: (path: string) => boolean): void {
    rmSync(join(tree, 'node_modules'), { recursive: true, force: true });
    rmSync(join(tree, 'called'), { force: true });
    const { packages } = readLock(join(root, installed));
    const kept = Object.entries(packages).filter(([path]) => !isLeftOut(path));
    for (const [path] of kept.filter(([one]) => one.lastIndexOf('node_modules/') === 0)) {
      mkdirSync(dirname(join(tree, path)), { recursive: true });
      symlinkSync(join(root, path), join(tree, path));
    }
    writeFileSync(join(tree, installed), JSON.stringify({ packages: Object.fromEntries(kept) }));
  }

  function run(...args: string[]) {
    const { HOME } = process.env;
    const env = { PATH: `${join(tree, 'fake')}:${process.env['PATH']}`, HOME, DATA_DIR: join(tree, 'data') };
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(tree, 'bin/handoff.js'), ...args], {
      ...{ env, cwd: tree, encoding: 'utf8' },
    });
    const wasCalled = existsSync(join(tree, 'called'));
    return { status, output: stdout + stderr, wasCalled };
  }

  test('installs nothing where the packages of the embedded mode were left out, and names them', () => {
    const { optionalDependencies = {} } = readLock(join(root, 'package-lock.json')).packages[''] ?? {};
    install((path) =>
      Object.keys(optionalDependencies).some((name) => `${path}/`.startsWith(`node_modules/${name}/`)),
    );
    // Of an earlier installation that had them.
    mkdirSync(join(tree, 'data/database'), { recursive: true });
    const before = readdirSync(join(tree, 'node_modules'));
    const { status, output, wasCalled } = run('doctor');
    assert.match(output, /^failed +database +The package @electric-sql\/pglite isn't installed\. .*npm ci/m);
    assert.deepEqual([status, wasCalled], [1, false]);
    assert.deepEqual(readdirSync(join(tree, 'node_modules')), before);
    const listed = run('consumer', 'list');
    assert.deepEqual([listed.status, listed.wasCalled], [0, false], listed.output);
  });

  test('names what it misses itself, and the command to run', () => {
    install((path) => path === 'node_modules/commander');
    for (const command of [['doctor'], ['consumer', 'list'], ['--config', 'serve', 'event', 'list']]) {
      const { status, output, wasCalled } = run(...command);
      assert.match(output, /node_modules\/commander.*installs nothing[\s\S]*npm ci/);
      assert.deepEqual([status, wasCalled], [1, false]);
    }
    assert.equal(run('serve').wasCalled, true);
  });

  test('installs where nothing was installed, as in a fresh clone; doctor does not even then', () => {
    rmSync(join(tree, 'node_modules'), { recursive: true });
    rmSync(join(tree, 'called'), { force: true });
    const { output, wasCalled } = run('doctor');
    assert.match(output, /npm ci/);
    assert.equal(wasCalled, false);
    assert.equal(run('consumer', 'list').wasCalled, true);
  });
});
