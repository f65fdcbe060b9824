import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, test } from 'node:test';

const launcher = join(import.meta.dirname, 'launcher-process.ts');

/** Starts a launcher, and waits until the program that it runs is ready. */
async function start(program: string) {
  const child = spawn(process.execPath, [launcher, program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  const ready = new Promise<void>((resolve) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      lines.push(...text.split('\n').filter(Boolean));
      if (lines.includes('ready')) resolve();
    });
  });
  await ready;
  return { child, lines, ended: once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]> };
}

const say = 'const say = (text) => process.stdout.write(`${text}\\n`);';
const wait = 'setInterval(() => {}, 1000);';

describe('a program that is launched', () => {
  test('gets a signal that comes twice in a moment once, and its exit code is passed on', async () => {
    const { child, lines, ended } = await start(`${say}${wait}
      process.on('SIGINT', () => { say('SIGINT'); setTimeout(() => process.exit(7), 50); });
      say('ready');`);
    child.kill('SIGINT');
    child.kill('SIGINT');
    assert.deepEqual(await ended, [7, null]);
    assert.deepEqual(lines, ['ready', 'SIGINT']);
  });

  test('gets another signal besides', async () => {
    const { child, lines, ended } = await start(`${say}${wait}
      process.on('SIGINT', () => say('SIGINT'));
      process.on('SIGTERM', () => { say('SIGTERM'); process.exit(0); });
      say('ready');`);
    child.kill('SIGINT');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
    assert.deepEqual(lines.toSorted(), ['SIGINT', 'SIGTERM', 'ready']);
  });

  test('that a signal ends counts as 128 and the signal, as in a shell', async () => {
    const { child, ended } = await start(`${say}${wait} say('ready');`);
    child.kill('SIGHUP');
    assert.deepEqual(await ended, [129, null]);
  });

  test('sees at file descriptor 3 that its launcher was killed', async () => {
    const { child, lines, ended } = await start(`${say}${wait}
      const pipe = new (require('node:net').Socket)({ fd: 3 });
      pipe.resume().on('close', () => { say('alone'); process.exit(); });
      say('ready');`);
    child.kill('SIGKILL');
    await ended;
    assert.deepEqual(lines, ['ready', 'alone']);
  });
});
