import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { eventually } from './eventually.ts';
import { freePort } from './ports.ts';

export interface RedisServer {
  url: string;
  pid: number;
  /** Ends the process, as a crash would. */
  stop(): Promise<void>;
}

/** Where the global setup of a test run leaves the URL of a Redis for all test files. */
export const sharedRedisVariable = 'HANDOFF_TEST_REDIS_URL';

/**
 * URL of a Redis that tests may share: REDIS_URL, else one on the usual port. Undefined where there is none; with
 * CI=true that is an error, since a suite that skips itself proves nothing.
 */
export async function findRedis(): Promise<string | undefined> {
  const url = await findRunningRedis();
  return url ?? missing('none answers at REDIS_URL or, without it, on 127.0.0.1:6379');
}

/** The same, and undefined where there is none. */
export async function findRunningRedis(): Promise<string | undefined> {
  const url = process.env[sharedRedisVariable] ?? process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
  const { hostname, port } = new URL(url);
  return (await accepts(Number(port || 6379), hostname)) ? url : undefined;
}

/** `startRedis` for a file or a suite, after which it stops. */
export async function useRedis(): Promise<RedisServer | undefined> {
  const redis = await startRedis();
  after(() => redis?.stop());
  return redis;
}

/**
 * Starts a Redis of the test's own, in memory only, on the given or a free port; `more` are further arguments of the
 * program. Undefined where `redis-server` is not installed; with CI=true that is an error.
 */
export async function startRedis(
  options: { port?: number; password?: string; more?: readonly string[] } = {},
): Promise<RedisServer | undefined> {
  const port = options.port ?? (await freePort());
  const folder = await mkdtemp(join(tmpdir(), 'handoff-redis-'));
  const secret = options.password === undefined ? [] : ['--requirepass', options.password];
  const child = spawn(
    'redis-server',
    [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      folder,
      ...secret,
      ...(options.more ?? []),
    ],
    { stdio: 'ignore' },
  );
  // A process whose tests are all left out runs no hook that would stop it.
  child.unref();
  const kill = () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  process.once('exit', kill);
  const started = await Promise.race([
    once(child, 'spawn').then(() => true),
    once(child, 'error').then(() => false),
  ]);
  if (!started) {
    process.off('exit', kill);
    return missing('redis-server is not installed');
  }
  await eventually(async () => assert.ok(await accepts(port)), { everyMs: 10 });
  const user = options.password === undefined ? '' : `:${options.password}@`;
  return {
    url: `redis://${user}127.0.0.1:${port}`,
    pid: child.pid as number,
    stop: async () => {
      process.off('exit', kill);
      await end(child, folder);
    },
  };
}

async function end(child: ChildProcess, folder: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit');
    // Nothing else may keep the process alive that waits for this.
    child.ref();
    child.kill('SIGKILL');
    await ended;
  }
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

function missing(reason: string): undefined {
  if (process.env['CI'] === 'true') throw new Error(`These tests need Redis, but ${reason}`);
  console.error(`SKIPPED: tests with a real Redis, because ${reason}`);
  return undefined;
}

async function accepts(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => answer(true));
    const answer = (yes: boolean) => {
      socket.destroy();
      resolve(yes);
    };
    socket.on('error', () => answer(false));
  });
}
