import { readFile } from 'node:fs/promises';

/**
 * When a process started, in the words of Linux: the boot and the clock ticks since then (proc(5), fields 3 and 22
 * of /proc/<pid>/stat). Together with the process id it names one process for ever: ids are used again, and in a
 * container they nearly always are. Null where the system does not tell, undefined where the process has ended.
 */
export async function processStart(pid: number): Promise<string | null | undefined> {
  if (!exists(pid)) return undefined;
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
    // The name of the program stands in parentheses and may hold anything, parentheses too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A killed process that nobody has waited for still has its id, but it will never do anything again.
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return `${await bootId()}/${fields[19] ?? ''}`;
  } catch {
    return exists(pid) ? null : undefined;
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it is there and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function bootId(): Promise<string> {
  try {
    return (await readFile('/proc/sys/kernel/random/boot_id', 'latin1')).trim();
  } catch {
    return '';
  }
}
