import { readdirSync, readFileSync } from 'node:fs';

interface Program {
  id: number;
  parent: number;
  command: string;
}

/**
 * Kills the programs that this process has started with the argument, and all that those have started; false where there is
 * none, or the system does not tell.
 */
export function killStartedWith(argument: string): boolean {
  const programs = process.platform === 'linux' ? runningPrograms() : [];
  const children = Map.groupBy(programs, ({ parent }) => parent);
  const started = (children.get(process.pid) ?? []).filter(({ command }) =>
    command.split('\0').includes(argument),
  );
  const doomed = [...started];
  for (const { id } of doomed) doomed.push(...(children.get(id) ?? []));
  for (const { id } of doomed) {
    try {
      process.kill(id, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
  return started.length > 0;
}

function runningPrograms(): Program[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // `ppid` of proc(5), behind the name in parentheses.
        const [, parent] = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8');
        return [{ id: Number(name), parent: Number(parent), command }];
      } catch {
        return [];
      }
    });
}
