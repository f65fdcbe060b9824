import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const migrations = 'src/platform/store/migrations';

/** The sources of an earlier release, with the packages of this one. */
export interface PreviousRelease {
  folder: string;
  /** What it is, in words. */
  name: string;
  remove(): Promise<void>;
}

/**
 * The newest release of the history that has fewer migrations than these sources; where no release has, the commit
 * before the newest migration. Where there is no history, as in a shallow clone, and where that commit still refuses
 * every newer schema, it is made up: these sources without their newest migration.
 */
export async function findPreviousRelease(): Promise<PreviousRelease> {
  const folder = await mkdtemp(join(tmpdir(), 'handoff-previous-'));
  const remove = () => rm(folder, { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const commit of await candidates()) {
    if (!(await allowsNewerSchemas(commit))) continue;
    await run('sh', ['-c', `git archive ${commit} | tar -x -C "${folder}"`], { cwd: root });
    return { folder, name: commit, remove };
  }
  for (const name of ['package.json', 'src', 'simulators', 'console', 'client', 'salesforce']) {
    await cp(join(root, name), join(folder, name), { recursive: true });
  }
  const newest = (await readdir(join(folder, migrations))).sort().at(-1) as string;
  await rm(join(folder, migrations, newest));
  return { folder, name: `these sources without ${newest}`, remove };
}

/** The newest first. */
async function candidates(): Promise<string[]> {
  const git = (...words: string[]) =>
    run('git', words, { cwd: root }).then(
      ({ stdout }) => stdout.split('\n').filter((line) => line !== ''),
      () => [],
    );
  const now = new Set(await readdir(join(root, migrations)));
  const hasFewer = async (commit: string) => {
    const files = await git('ls-tree', '--name-only', commit, `${migrations}/`);
    return files.length > 0 && files.length < now.size;
  };
  const tags = await git('tag', '--merged', 'HEAD', '--list', 'v*', '--sort=-version:refname');
  const [added] = await git('log', '-1', '--diff-filter=A', '--format=%H', '--', migrations);
  const commits = [...tags, ...(added === undefined ? [] : ['HEAD', `${added}^`])];
  const fewer = await Promise.all(commits.map(hasFewer));
  return commits.filter((_, index) => fewer[index]);
}

/** Earlier ones refused a schema that they did not know, whatever it said. */
async function allowsNewerSchemas(commit: string): Promise<boolean> {
  const { stdout } = await run('git', ['show', `${commit}:src/platform/store/migrate.ts`], { cwd: root });
  return stdout.includes('oldest_program');
}

/** Names of the migrations of these sources, and what they say. */
export async function readMigrations(): Promise<{ file: string; sql: string }[]> {
  const files = (await readdir(join(root, migrations))).sort();
  return Promise.all(
    files.map(async (file) => ({ file, sql: await readFile(join(root, migrations, file), 'utf8') })),
  );
}
