import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { features } from '../../src/features.ts';
import { readImports } from './imports.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);
const folder = (name: string) => `src/features/${name}`;

/** Features that no other one imports. The others leave together with those that need them. */
const optional = features
  .map(({ name }) => name)
  .filter((name) =>
    readImports(root, ['src/features']).every(
      ({ from, to }) => from.startsWith(`${folder(name)}/`) || !to?.startsWith(`${folder(name)}/`),
    ),
  );

/** The tests of features, and of what they build on; the others are about the whole service. */
const tests = ['features', 'platform', 'identity', 'crm', 'conformance', 'support', 'architecture'];

/** A tree as it is when somebody has deleted the feature's folder, its tests and its line in the list. */
function treeWithout(name: string): string {
  const tree = mkdtempSync(join(tmpdir(), 'handoff-feature-'));
  for (const path of ['src', 'simulators', 'client', 'console', 'salesforce', 'docs', 'package.json'])
    cpSync(join(root, path), join(tree, path), { recursive: true, filter: isOurs });
  for (const path of tests) cpSync(join(root, 'test', path), join(tree, 'test', path), { recursive: true });
  for (const path of [folder(name), `test/features/${name}`]) rmSync(join(tree, path), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
  const list = readFileSync(join(root, 'src/features.ts'), 'utf8');
  const [, variable = ''] = new RegExp(`import \\{ (\\w+) \\} from './features/${name}/`).exec(list) ?? [];
  const lines = list.split('\n').filter((line) => line.trim() !== `${variable},`);
  const left = lines.filter((line) => !line.includes(`'./features/${name}/`));
  assert.equal(left.length, list.split('\n').length - 2, 'one line imports it, and one lists it');
  writeFileSync(join(tree, 'src/features.ts'), left.join('\n'));
  const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as object & {
    compilerOptions: object;
  };
  writeFileSync(
    join(tree, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, include: ['src', 'simulators', 'test'] }),
  );
  return tree;
}

function isOurs(path: string): boolean {
  return !path.includes('node_modules');
}

describe('without the folder and the line of the feature', { concurrency: 2 }, () => {
  const trees: string[] = [];
  after(() => {
    for (const tree of trees) rmSync(tree, { recursive: true });
  });

  test('there are features that no other one needs', () => {
    assert.ok(optional.length >= 6, optional.join());
  });

  for (const name of optional) {
    test(`${name} the types compile, and the service starts with all others`, async () => {
      const tree = treeWithout(name);
      trees.push(tree);
      const tsc = join(root, 'node_modules/typescript/bin/tsc');
      const { stdout: faults } = await run(process.execPath, [tsc, '-p', tree], { cwd: tree }).catch(
        (error: { stdout: string }) => error,
      );
      assert.equal(faults, '');
      const { stdout } = await run(process.execPath, [join(tree, 'test/architecture/start-process.ts')], {
        cwd: tree,
      });
      const found = JSON.parse(stdout) as {
        health: { status: string };
        operations: string[];
        failed: string[];
      };
      assert.equal(found.health.status, 'ok');
      assert.deepEqual(found.failed, []);
      assert.ok(found.operations.includes('getHealth') && found.operations.length > 10);
    });
  }
});
