import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
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
const others = [
  'src',
  'simulators',
  'client',
  'console',
  'salesforce',
  'docs',
  'package.json',
  'package-lock.json',
];

describe('without the folder and the line of the feature', () => {
  const tree = mkdtempSync(join(tmpdir(), 'handoff-features-'));
  const inTree = (...path: string[]) => join(tree, ...path);
  after(() => rmSync(tree, { recursive: true }));

  /** What the compiler says of the tree; it looks at what has changed since the last time. */
  async function compile(): Promise<string> {
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const ended = run(process.execPath, [tsc, '-p', tree, '--incremental'], { cwd: tree });
    const { stdout } = await ended.catch((error: { stdout: string }) => error);
    return stdout;
  }

  before(async () => {
    const paths = [...others, ...tests.map((name) => `test/${name}`)];
    const filter = (path: string) => !path.includes('node_modules');
    for (const path of paths) cpSync(join(root, path), inTree(path), { recursive: true, filter });
    symlinkSync(join(root, 'node_modules'), inTree('node_modules'));
    const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as {
      compilerOptions: object;
    };
    const config = { compilerOptions, include: ['src', 'simulators', 'test'] };
    writeFileSync(inTree('tsconfig.json'), JSON.stringify(config));
    assert.equal(await compile(), '');
  });

  test('there are features that no other one needs', () => {
    assert.ok(optional.length >= 6, optional.join());
  });

  for (const name of optional) {
    test(`${name} the types compile, and the service starts with all others`, async () => {
      const list = readFileSync(inTree('src/features.ts'), 'utf8');
      const folders = [folder(name), `test/features/${name}`];
      for (const path of folders) renameSync(inTree(path), inTree(`taken-out-${path.replaceAll('/', '-')}`));
      writeFileSync(inTree('src/features.ts'), withoutFeature(list, name));
      try {
        assert.equal(await compile(), '');
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
      } finally {
        for (const path of folders)
          renameSync(inTree(`taken-out-${path.replaceAll('/', '-')}`), inTree(path));
        writeFileSync(inTree('src/features.ts'), list);
      }
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
