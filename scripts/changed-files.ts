import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');

/**
 * Paths from the root of what differs from the commit where this branch left main: committed or not, new or deleted. On main
 * itself that is what is not committed. Undefined outside a repository.
 */
export function changedFiles(): Set<string> | undefined {
  const base = git('merge-base', 'HEAD', 'origin/main') ?? git('merge-base', 'HEAD', 'main') ?? ['HEAD'];
  const tracked = git('diff', '--name-only', '--no-renames', base[0] ?? 'HEAD');
  const added = git('ls-files', '--others', '--exclude-standard');
  return tracked && added && new Set([...tracked, ...added]);
}

/** Lines of what git says, undefined where it fails. */
function git(...words: string[]): string[] | undefined {
  try {
    const text = execFileSync('git', words, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return text.split('\n').filter((line) => line !== '');
  } catch {
    return undefined;
  }
}
