import { acquireFileLock } from '../../../src/platform/base/files.ts';

/** `hold PATH`: takes the lock and says so. `count PATH FILE N`: adds 1 to the number in the file N times. */
const [mode = '', path = '', file = '', times = ''] = process.argv.slice(2);

if (mode === 'hold') {
  await acquireFileLock(path, { purpose: 'test holder', subject: path });
  process.send?.('held');
  setInterval(() => undefined, 1000);
} else {
  const { readFile, writeFile } = await import('node:fs/promises');
  for (let i = 0; i < Number(times); i++) {
    const lock = await acquireFileLock(path, { subject: path }, 30_000);
    await writeFile(file, String(Number(await readFile(file, 'utf8')) + 1));
    // The last one dies with the lock, as a crash would leave it.
    if (i + 1 === Number(times)) process.kill(process.pid, 'SIGKILL');
    await lock.release();
  }
}
