import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
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
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

/*
 * Builds what a release consists of into one folder, from the last commit and nothing else: docs/versioning.md#release. The same
 * commit gives the same files, byte for byte.
 */

const root = join(import.meta.dirname, '..');

const sumsFile = 'SHA256SUMS';

interface Manifest {
  version: string;
}

/** Throws a reason not to release. */
function build(out: string, isCheck: boolean): void {
  if (run('git', ['status', '--porcelain'], root) !== '')
    throw new Error('There are changes that are not committed.');
  const earlier = earlierRelease(out);
  const folder = mkdtempSync(join(tmpdir(), 'handoff-release-'));
  // Its name gets into the SBOM.
  const tree = join(folder, 'handoff-gateway');
  const made = join(folder, 'release');
  try {
    mkdirSync(tree);
    mkdirSync(made);
    execFileSync('sh', ['-c', `git archive HEAD | tar -x -C '${tree}'`], { cwd: root });
    symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    const version = oneVersion(tree);
    writeFileSync(join(made, 'VERSION'), `${version} ${run('git', ['rev-parse', 'HEAD'], root)}\n`);
    writeFileSync(
      join(made, 'CHANGES.md'),
      changesOf(readFileSync(join(tree, 'CHANGELOG.md'), 'utf8'), version, isCheck),
    );
    copyFileSync(baseline(tree, isCheck), join(made, 'openapi.json'));
    run('npm', ['pack', '--silent', '--pack-destination', made], join(tree, 'client'));
    writeFileSync(join(made, 'sbom.cdx.json'), sbom(tree));
    const files = readdirSync(made).toSorted();
    const sums = files.map((name) => `${sha256(join(made, name))}  ${name}\n`);
    writeFileSync(join(made, sumsFile), sums.join(''));
    mkdirSync(out, { recursive: true });
    for (const name of earlier) rmSync(join(out, name));
    for (const name of [...files, sumsFile]) copyFileSync(join(made, name), join(out, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Names of an earlier release in the folder, which may be anybody's: throws where it has anything else in it. */
function earlierRelease(out: string): string[] {
  if (!existsSync(out)) return [];
  const names = readdirSync(out);
  const sums = names.includes(sumsFile) ? readFileSync(join(out, sumsFile), 'utf8') : '';
  const released = new Set([
    sumsFile,
    ...[...sums.matchAll(/^[0-9a-f]{64} {2}(.+)$/gm)].map(([, name]) => name),
  ]);
  if (names.some((name) => !released.has(name)))
    throw new Error(`${out} has other files than a release in it: name another folder with --out.`);
  return names;
}

/** The version of the service, which its parts share. */
function oneVersion(tree: string): string {
  const { version } = readJson(join(tree, 'package.json')) as Manifest;
  const chart = readFileSync(join(tree, 'deploy/helm/handoff-gateway/Chart.yaml'), 'utf8');
  const others = [
    (readJson(join(tree, 'client/package.json')) as Manifest).version,
    ...[...chart.matchAll(/^(?:version|appVersion): (.+)$/gm)].map(([, text]) => text),
  ];
  if (others.some((other) => other !== version))
    throw new Error(`The client and the chart need the version of package.json, ${version}.`);
  return version;
}

/** The section of the version; with --check what is not released yet does. */
function changesOf(changelog: string, version: string, isCheck: boolean): string {
  const sections = changelog.split(/^## /m).slice(1);
  const find = (name: string) => sections.find((section) => section.startsWith(`[${name}]`));
  const section = find(version) ?? (isCheck ? find('Unreleased') : undefined);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section [${version}].`);
  if (!/^- /m.test(section)) throw new Error(`CHANGELOG.md says nothing about ${version}.`);
  return `## ${section.trimEnd()}\n`;
}

/** What later changes of the API are checked against. */
function baseline(tree: string, isCheck: boolean): string {
  const [current, released] = [join(tree, 'docs/openapi.json'), join(tree, 'docs/openapi.released.json')];
  if (!isCheck && !readFileSync(current).equals(readFileSync(released)))
    throw new Error('docs/openapi.released.json is not that of this version: npm run openapi -- --released');
  return current;
}

/** The packages that production needs, from the lock file; without what would differ each time. */
function sbom(tree: string): string {
  const text = run(
    'npm',
    [
      'sbom',
      '--omit=dev',
      '--omit=optional',
      '--package-lock-only',
      '--sbom-type=application',
      '--sbom-format=cyclonedx',
    ],
    tree,
  );
  const {
    serialNumber: _,
    metadata,
    ...rest
  } = JSON.parse(text) as {
    serialNumber: string;
    metadata: { timestamp: string };
  };
  const timestamp = new Date(run('git', ['show', '-s', '--format=%cI', 'HEAD'], root)).toISOString();
  return `${JSON.stringify({ ...rest, metadata: { ...metadata, timestamp } }, null, 2)}\n`;
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

function run(program: string, words: string[], cwd: string): string {
  return execFileSync(program, words, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
}

const { values } = parseArgs({
  options: { check: { type: 'boolean', default: false }, out: { type: 'string', default: 'release' } },
});
const out = resolve(values.out);
try {
  build(out, values.check);
  process.stdout.write(`${out}\n${readFileSync(join(out, 'SHA256SUMS'), 'utf8')}`);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
