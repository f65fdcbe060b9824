import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { ownEnvironment } from './environment.ts';

export interface CommandResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface CommandOptions {
  /** What the shell of the person has set, in addition to what the machine needs. */
  env?: NodeJS.ProcessEnv;
  cwd?: string | undefined;
}

const host = join(import.meta.dirname, 'command-host.ts');
const commands = join(import.meta.dirname, '../../src/cli/cli.ts');

/** Commands that run one after the other in one process beside the tests, since loading the program takes most of the time. */
export class CommandLine {
  readonly #module: string;
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** `module` exports `runCommandLine(args)`. */
  constructor(module = commands) {
    this.#module = module;
  }

  /** Runs `handoff` with these arguments, as `execFile` would. */
  run(args: readonly string[], { env = {}, cwd }: CommandOptions = {}): Promise<CommandResult> {
    const result = this.#last.then(async () => {
      const child = this.#start();
      const outputs = [untilEnd(child.stdout), untilEnd(child.stderr)] as const;
      child.stdin.write(`${JSON.stringify({ args, env: { ...ownEnvironment(), ...env }, cwd })}\n`);
      const [stdout, stderr] = await Promise.all(outputs);
      return { code: stdout.code, stdout: stdout.text, stderr: stderr.text };
    });
    this.#last = result.catch(() => {});
    return result;
  }

  /** Ends the process, which does not outlive the tests in any case. */
  stop(): void {
    this.#child?.kill();
    this.#child = undefined;
  }

  #start() {
    if (this.#child !== undefined) return this.#child;
    const child = spawn(process.execPath, [host, this.#module], {
      env: ownEnvironment(),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.once('exit', () => {
      if (this.#child === child) this.#child = undefined;
    });
    // A host that has ended is noticed by its output.
    child.stdin.on('error', () => {});
    return child;
  }
}

/** What the host writes, up to the mark with the exit code that it sets behind the output of a command. */
function untilEnd(stream: Readable): Promise<{ text: string; code: number }> {
  return new Promise((resolve, reject) => {
    let text = '';
    const ended = () => reject(new Error(`The process of the commands has ended: ${text}`));
    if (stream.readableEnded) ended();
    stream.setEncoding('utf8').on('data', function read(chunk: string) {
      text += chunk;
      const [output = '', code] = text.split('\0', 2);
      if (code === undefined || !text.endsWith('\0')) return;
      stream.off('data', read).off('end', ended);
      resolve({ text: output, code: Number(code) });
    });
    stream.once('end', ended);
  });
}
