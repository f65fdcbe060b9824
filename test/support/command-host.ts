import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

/*
 * Runs the command lines that come as lines of JSON, with the `runCommandLine` of the module in the first argument. Behind the
 * output of each, standard output and standard error get a mark with the exit code between two zeros.
 */

interface Line {
  args: string[];
  env: NodeJS.ProcessEnv;
  cwd?: string;
}

const { runCommandLine } = (await import(pathToFileURL(process.argv[2] ?? '').href)) as {
  runCommandLine(args: readonly string[]): Promise<void>;
};
const writeError = process.stderr.write.bind(process.stderr);

for await (const text of createInterface({ input: process.stdin })) {
  const { args, env, cwd } = JSON.parse(text) as Line;
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  if (cwd !== undefined) process.chdir(cwd);
  process.exitCode = 0;
  let ended: number | undefined;
  // In place of the end: the command goes no further, and what it says about that is not output.
  process.exit = (code) => {
    ended ??= Number(code ?? process.exitCode);
    process.stderr.write = () => true;
    throw new Error('ended');
  };
  try {
    await runCommandLine(args);
  } catch (error) {
    if (ended === undefined) throw error;
  }
  process.stderr.write = writeError;
  const mark = `\0${ended ?? process.exitCode}\0`;
  process.stdout.write(mark);
  process.stderr.write(mark);
}
