import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { features } from '../../src/features.ts';
import { isNightly } from '../support/nightly.ts';
import { readImports } from './imports.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);
const folder = (name: string) => `src/features/${name}`;
const foldersOf = (name: string) => [folder(name), `test/features/${name}`];

const imports = readImports(root, ['src/features']);

/** Features that no other one imports. The others leave together with those that need them. */
const optional = features
  .map(({ name }) => name)
  .filter((name) =>
    imports.every(
      ({ from, to }) => from.startsWith(`${folder(name)}/`) || !to?.startsWith(`${folder(name)}/`),
    ),
  );

/** The tests of features, and of what they build on; the others are about the whole service. */
const tests = ['features', 'platform', 'identity', 'crm', 'conformance', 'support', 'architecture'];
const others = [
  'src',
  'simulators',
  'client',
  'console',
  'salesforce',
  'scripts',
  'docs',
  'package.json',
  'package-lock.json',
];

describe('without the folder and the line of the feature', () => {
  const tree = mkdtempSync(join(tmpdir(), 'handoff-features-'));
  const inTree = (...path: string[]) => join(tree, ...path);
  after(() => rmSync(tree, { recursive: true }));

  before(() => {
    const paths = [...others, ...tests.map((name) => `test/${name}`)];
    const filter = (path: string) => !path.includes('node_modules');
    for (const path of paths) cpSync(join(root, path), inTree(path), { recursive: true, filter });
    symlinkSync(join(root, 'node_modules'), inTree('node_modules'));
    const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as {
      compilerOptions: object;
    };
    const config = { compilerOptions, include: ['src', 'simulators', 'test'] };
    writeFileSync(inTree('tsconfig.json'), JSON.stringify(config));
  });

  /** Does something while these features are not in the tree. */
  async function without(names: readonly string[], act: () => Promise<void>): Promise<void> {
    const list = readFileSync(inTree('src/features.ts'), 'utf8');
    const moves = names
      .flatMap(foldersOf)
      .map((path) => [path, `taken-out-${path.replaceAll('/', '-')}`] as const);
    for (const [path, aside] of moves) renameSync(inTree(path), inTree(aside));
    writeFileSync(inTree('src/features.ts'), names.reduce(withoutFeature, list));
    try {
      await act();
    } finally {
      for (const [path, aside] of moves) renameSync(inTree(aside), inTree(path));
      writeFileSync(inTree('src/features.ts'), list);
    }
  }

  test('there are features that no other one needs', () => {
    assert.ok(optional.length >= 6, optional.join());
  });

  // One compilation is as good as one for each: no file needs one of them, as is tested next, and all have the same list.
  test('the types compile without any of them', { skip: !isNightly && 'for the nightly run' }, async () => {
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    await without(optional, async () => {
      // With threads it takes twice the work.
      const ended = run(process.execPath, [tsc, '-p', tree, '--singleThreaded'], { cwd: tree });
      const { stdout } = await ended.catch((error: { stdout: string }) => error);
      assert.equal(stdout, '');
    });
  });

  test('no file outside of one needs it, and none changes the types of others', () => {
    for (const { from, to } of readImports(tree, ['src', 'simulators', 'test'])) {
      const isInside = (path: string | undefined) => (name: string) =>
        foldersOf(name).some((folder) => path?.startsWith(`${folder}/`));
      const needed = optional.find(isInside(to));
      const isOwn = needed === undefined || isInside(from)(needed) || from === 'src/features.ts';
      assert.ok(isOwn, `${from} imports ${to}`);
    }
    for (const path of globSync(
      optional.map((name) => `${folder(name)}/**/*.ts`),
      { cwd: tree },
    ))
      assert.doesNotMatch(readFileSync(inTree(path), 'utf8'), /^declare (?:module|global)/m, path);
  });

  // One start takes seconds: the nightly run tries each, and `npm test` all at once.
  for (const names of isNightly ? optional.map((name) => [name]) : [optional]) {
    test(`${names.join()} the service starts with all others`, async () => {
      await without(names, async () => {
        const program = inTree('test/architecture/start-process.ts');
        const { stdout } = await run(process.execPath, [program], { cwd: tree });
        const found = JSON.parse(stdout) as {
          health: { status: string };
          operations: string[];
          failed: string[];
        };
        assert.equal(found.health.status, 'ok');
        assert.deepEqual(found.failed, []);
        assert.ok(found.operations.includes('getHealth') && found.operations.length > 10);
      });
    });
  }
});

/** The list of features without the line that names one, and without its import. */
function withoutFeature(list: string, name: string): string {
  const [line = '', variable = ''] =
    new RegExp(`^import \\{ (\\w+) \\} from './features/${name}/.*$`, 'm').exec(list) ?? [];
  const left = list.replace(`${line}\n`, '').replace(`  ${variable},\n`, '');
  assert.equal(left.split('\n').length, list.split('\n').length - 2);
  return left;
}
