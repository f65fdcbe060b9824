import { closeSync, mkdirSync, openSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** A file that has grown to this is set aside as `<path>.1`, which replaces the one before. */
const maxBytes = 16 * 1_048_576;
/** Bytes between two looks at the size: other processes may write to the same file. */
const bytesPerLook = 1_048_576;

/** The log of a service whose standard output is a terminal. With the file set aside at most 32 MiB; mode 0600. */
export class LogFile {
  readonly #path: string;
  /** Undefined after an attempt to write that failed. */
  #file: number | undefined;
  #sinceLook = 0;
  #isFailing = false;

  /** Opens the file to add to it. Throws where that is impossible. */
  constructor(path: string) {
    this.#path = path;
    this.#file = this.#open();
  }

  /** Lines that can't be written are lost, and standard error says so once: a full disk stops no service. */
  write(text: string): void {
    try {
      if (this.#sinceLook >= bytesPerLook) this.#close();
      this.#file ??= this.#open();
      this.#sinceLook += Buffer.byteLength(text);
      writeSync(this.#file, text);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) process.stderr.write(`The log can't be written: ${String(error)}\n`);
      this.#isFailing = true;
      this.#close();
    }
  }

  #close(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) closeSync(file);
  }

  #open(): number {
    this.#sinceLook = 0;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
    if (size >= maxBytes) renameSync(this.#path, `${this.#path}.1`);
    return openSync(this.#path, 'a', 0o600);
  }
}
