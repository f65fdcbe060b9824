import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folders: string[] = [];
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** A new folder that is deleted when the process ends, after everything that a test stops. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'handoff-test-'));
  folders.push(folder);
  return folder;
}
