import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { comparePackages } from '../../scripts/install-if-missing.js';

interface LockedPackage {
  version: string;
  optionalDependencies?: Record<string, string>;
}

describe('what is missing', () => {
  const wanted = {
    '': { version: '1.0.0' },
    'node_modules/a': { version: '1.0.0' },
    'node_modules/a/node_modules/b': { version: '2.0.0' },
    'node_modules/tool': { version: '3.0.0', dev: true },
    'node_modules/a-linux': { version: '1.0.0', optional: true },
  };
  const { 'node_modules/a-linux': _, ...installed } = wanted;
  const there = () => false;

  test('is nothing when all is installed, whatever was left out for another kind of machine', () => {
    assert.deepEqual(comparePackages(wanted, installed, there, false), []);
  });

  test('is a package of another version, at any depth', () => {
    const old = { ...installed, 'node_modules/a/node_modules/b': { version: '1.9.9' } };
    assert.deepEqual(comparePackages(wanted, old, there, false), ['node_modules/a/node_modules/b']);
  });

  test('is everything in a fresh clone, but optional packages', () => {
    const all = ['node_modules/a', 'node_modules/a/node_modules/b', 'node_modules/tool'];
    assert.deepEqual(comparePackages(wanted, {}, there, false), all);
  });

  test('is no tool of developers where the service is to run', () => {
    const { 'node_modules/tool': _tool, ...production } = installed;
    assert.deepEqual(comparePackages(wanted, production, there, true), []);
    assert.deepEqual(comparePackages(wanted, production, there, false), ['node_modules/tool']);
  });

  test('is a package of the embedded mode, unless the service runs in production', () => {
    const root = { '': { version: '1.0.0', optionalDependencies: { simulator: '1.0.0' } } };
    const simulator = { 'node_modules/simulator': { version: '1.0.0', optional: true } };
    const missing = () => comparePackages({ ...wanted, ...root, ...simulator }, installed, there, true);
    assert.deepEqual(missing(), ['node_modules/simulator']);
    process.env['NODE_ENV'] = 'production';
    assert.deepEqual(missing(), []);
    delete process.env['NODE_ENV'];
  });

  test('is a package whose folder was removed', () => {
    const isGone = (path: string) => path === 'node_modules/a';
    assert.deepEqual(comparePackages(wanted, installed, isGone, true), ['node_modules/a']);
  });

  test('is an optional package of another version', () => {
    const old = { ...installed, 'node_modules/a-linux': { version: '0.9.0' } };
    assert.deepEqual(comparePackages(wanted, old, there, false), ['node_modules/a-linux']);
  });
});

describe('the lock file', () => {
  test('names the packages for every kind of machine', () => {
    // npm leaves out those that the registry in use does not carry, and then refuses the file in `npm ci`.
    const file = readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8');
    const { packages } = JSON.parse(file) as { packages: Record<string, LockedPackage> };
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.entries(optionalDependencies)
        .filter(
          ([name, version]) => /^\d/.test(version) && resolve(packages, path, name)?.version !== version,
        )
        .map(([name, version]) => `${name} ${version} of ${path}`),
    );
    assert.deepEqual(missing, []);
  });
});

/** The package that code in the folder `from` gets, as Node looks for it: upwards. */
function resolve(
  packages: Record<string, LockedPackage>,
  from: string,
  name: string,
): LockedPackage | undefined {
  const found = packages[`${from === '' ? '' : `${from}/`}node_modules/${name}`];
  if (found !== undefined || from === '') return found;
  const parent = from.lastIndexOf('/node_modules/');
  return resolve(packages, parent < 0 ? '' : from.slice(0, parent), name);
}
