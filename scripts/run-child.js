import { spawn } from 'node:child_process';
import { constants } from 'node:os';

/** npm passes on a signal that the terminal has sent already: the same one within this time is forwarded once. */
const sameSignalMs = 200;

/**
 * Runs a program to its end and answers with its exit code (128 and the signal's number where a signal ended it).
 * The program gets a process group of its own, so that a terminal's Ctrl-C reaches it once, through us; SIGINT,
 * SIGTERM and SIGHUP are forwarded. It holds one end of a pipe at file descriptor 3, by which it can see us end.
 * After `timeoutMs` the whole group is ended.
 *
 * @param {string} file
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, stdout?: 'inherit' | number, stderr?: 'inherit' | number, timeoutMs?: number | undefined, onSpawn?: (pid: number) => void }} [options]
 * @returns {Promise<number>}
 */
export function runChild(file, args, options = {}) {
  const { cwd, env, stdout = 'inherit', stderr = 'inherit', timeoutMs, onSpawn } = options;
  return new Promise((resolve, reject) => {
    // First, so that no signal ends us between the two and leaves the child alone.
    const stopForwarding = forwardSignals((signal) => child.kill(signal));
    const child = spawn(file, args, {
      cwd,
      env,
      stdio: ['inherit', stdout, stderr, 'pipe'],
      detached: true,
    });
    const timer =
      timeoutMs === undefined ? undefined : setTimeout(() => endGroup(child, timeoutMs), timeoutMs);
    child.once('spawn', () => onSpawn?.(child.pid ?? 0));
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      stopForwarding();
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}

/** @param {(signal: NodeJS.Signals) => void} send */
function forwardSignals(send) {
  /** @type {NodeJS.Signals[]} */
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  /** @type {Map<NodeJS.Signals, number>} */
  const lastAt = new Map();
  /** @param {NodeJS.Signals} signal */
  const forward = (signal) => {
    const now = performance.now();
    const isRepeat = now - (lastAt.get(signal) ?? Number.NEGATIVE_INFINITY) < sameSignalMs;
    lastAt.set(signal, now);
    if (!isRepeat) send(signal);
  };
  for (const signal of signals) process.on(signal, forward);
  return () => {
    for (const signal of signals) process.off(signal, forward);
  };
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {number} timeoutMs
 */
function endGroup(child, timeoutMs) {
  console.error(`\nStopped after ${Math.round(timeoutMs / 1000)} s because it took too long.`);
  if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
}
