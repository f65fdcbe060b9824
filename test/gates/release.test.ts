import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const left = new Set(['node_modules', '.git', '.data', 'coverage', 'release', 'dist']);

/** npm makes the list of packages from version 10 on. */
const isOld = await run('npm', ['sbom', '--help']).then(
  () => false,
  () => 'npm is older than 10',
);

describe('a release', { skip: isOld }, () => {
  let folder: string;
  let tree: string;
  const git = (...words: string[]) =>
    run('git', ['-c', 'user.name=Test', '-c', 'user.email=test@example.com', ...words], { cwd: tree });
  const release = (...words: string[]) =>
    run('npm', ['run', '--silent', 'release', '--', ...words], { cwd: tree });
  const read = (out: string, name: string) => readFileSync(join(folder, out, name), 'utf8');

  // A repository of its own, so that changes that are not committed here are tested too.
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'handoff-release-test-'));
    tree = join(folder, 'tree');
    cpSync(root, tree, { recursive: true, filter: (path) => !left.has(basename(path)) });
    symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    writeFileSync(
      join(tree, '.gitignore'),
      `${readFileSync(join(tree, '.gitignore'), 'utf8')}\nnode_modules\n`,
    );
    await git('init', '--quiet');
    await git('add', '--all');
    await git('commit', '--quiet', '--message', 'The tree');
  });
  after(() => rmSync(folder, { recursive: true }));

  test('has everything, and is the same each time', async () => {
    for (const out of ['first', 'second']) await release('--check', '--out', join(folder, out));
    assert.equal(read('first', 'SHA256SUMS'), read('second', 'SHA256SUMS'));
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    const names = ['CHANGES.md', 'SHA256SUMS', 'VERSION', `handoff-gateway-client-${version}.tgz`];
    assert.deepEqual(readdirSync(join(folder, 'first')).toSorted(), [
      ...names,
      'openapi.json',
      'sbom.cdx.json',
    ]);
    await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: join(folder, 'first') });
    assert.match(read('first', 'CHANGES.md'), /^## \[[^]+\n- /);
    const sbom = JSON.parse(read('first', 'sbom.cdx.json')) as {
      bomFormat: string;
      metadata: { component: object };
      components: { name: string; purl: string; scope?: string }[];
    };
    assert.equal(sbom.bomFormat, 'CycloneDX');
    assert.partialDeepStrictEqual(sbom.metadata.component, {
      name: 'handoff-gateway',
      version,
      type: 'application',
    });
    const packages = sbom.components.map(({ name }) => name);
    assert.ok(packages.includes('fastify') && !packages.includes('typescript'));
  });

  test('takes no files out of a folder that holds no release', async () => {
    const file = join(folder, 'mine.txt');
    writeFileSync(file, 'mine');
    await assert.rejects(release('--check', '--out', folder), /has other files than a release in it/);
    assert.equal(readFileSync(file, 'utf8'), 'mine');
    // A release, and a note beside it.
    const out = join(folder, 'noted');
    await release('--check', '--out', out);
    await release('--check', '--out', out);
    writeFileSync(join(out, 'note.txt'), 'mine');
    await assert.rejects(release('--check', '--out', out), /has other files than a release in it/);
    assert.equal(readFileSync(join(out, 'note.txt'), 'utf8'), 'mine');
  });

  test('is refused for a version without changes, and with changes that are not committed', async () => {
    const because = (words: string[]) =>
      release(...words, '--out', join(folder, 'refused')).then(
        () => assert.fail('it was made'),
        ({ stderr }: { stderr: string }) => stderr,
      );
    const changelog = join(tree, 'CHANGELOG.md');
    writeFileSync(changelog, '# Changelog\n\n## [Unreleased]\n\n### Added\n');
    assert.match(await because(['--check']), /not committed/);
    await git('commit', '--quiet', '--all', '--message', 'No changes');
    assert.match(await because(['--check']), /CHANGELOG\.md says nothing about/);
    assert.match(await because([]), /CHANGELOG\.md has no section \[/);
  });
});
