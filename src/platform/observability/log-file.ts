import { closeSync, mkdirSync, openSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** A file that has grown to this is set aside as `<path>.1`, which replaces the one before. */
const maxBytes = 16 * 1_048_576;
/** Bytes between two looks at the size: other processes may write to the same file. */
const bytesPerLook = 1_048_576;

/** The log of a service whose standard output is a terminal. With the file set aside at most 32 MiB; mode 0600. */
export class LogFile {
  readonly #path: string;
  #file: number;
  #sinceLook = 0;

  /** Opens the file to add to it. Throws where that is impossible. */
  constructor(path: string) {
    this.#path = path;
    this.#file = this.#open();
  }

  write(text: string): void {
    if (this.#sinceLook >= bytesPerLook) {
      closeSync(this.#file);
      this.#file = this.#open();
    }
    this.#sinceLook += Buffer.byteLength(text);
    writeSync(this.#file, text);
  }

  #open(): number {
    this.#sinceLook = 0;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
    if (size >= maxBytes) renameSync(this.#path, `${this.#path}.1`);
    return openSync(this.#path, 'a', 0o600);
  }
}
