import { join } from 'node:path';
import { makeFolder } from './durable-file.ts';
import { type FileLock, tryAcquireFileLock } from './file-lock.ts';

/**
 * Everything in the data directory belongs to one process and its workers. Throws `FileLockHeld`, which tells a second
 * process who has it. `purpose` is what others are told that this one does.
 */
export async function lockDataDir(dataDir: string, purpose: string): Promise<FileLock> {
  await makeFolder(dataDir);
  return tryAcquireFileLock(join(dataDir, 'in-use'), { purpose, subject: dataDir });
}
