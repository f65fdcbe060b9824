import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';

const launcher = join(import.meta.dirname, 'launcher-process.ts');

/** Starts a launcher, and waits until the program that it runs says that it is ready. */
async function start(program: string) {
  const child = spawn(process.execPath, [launcher, program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async () => (await lines.next()).value;
  assert.equal(await nextLine(), 'ready');
  return { child, nextLine, otherLines: () => Array.fromAsync(lines), ended };
}

const say = 'const say = (text) => process.stdout.write(`${text}\\n`);';
const wait = 'setInterval(() => {}, 1000);';

describe('a program that is launched', () => {
  test('gets a signal that comes twice in a moment once, and its exit code is passed on', async () => {
    const { child, otherLines, ended } = await start(`${say}${wait}
      process.on('SIGINT', () => { say('SIGINT'); setTimeout(() => process.exit(7), 50); });
      say('ready');`);
    child.kill('SIGINT');
    child.kill('SIGINT');
    assert.deepEqual(await otherLines(), ['SIGINT']);
    assert.deepEqual(await ended, [7, null]);
  });

  test('gets another signal besides', async () => {
    const { child, nextLine, otherLines, ended } = await start(`${say}${wait}
      process.on('SIGINT', () => say('SIGINT'));
      process.on('SIGTERM', () => { say('SIGTERM'); process.exit(0); });
      say('ready');`);
    child.kill('SIGINT');
    assert.equal(await nextLine(), 'SIGINT');
    child.kill('SIGTERM');
    assert.deepEqual(await otherLines(), ['SIGTERM']);
    assert.deepEqual(await ended, [0, null]);
  });

  test('that a signal ends counts as 128 and the signal, as in a shell', async () => {
    const { child, ended } = await start(`${say}${wait} say('ready');`);
    child.kill('SIGHUP');
    assert.deepEqual(await ended, [129, null]);
  });

  test('sees at file descriptor 3 that its launcher was killed', async () => {
    const { child, otherLines } = await start(`${say}${wait}
      const pipe = new (require('node:net').Socket)({ fd: 3 });
      pipe.resume().on('close', () => { say('alone'); process.exit(); });
      say('ready');`);
    child.kill('SIGKILL');
    assert.deepEqual(await otherLines(), ['alone']);
  });
});
