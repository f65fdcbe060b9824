import { closeSync, mkdirSync, openSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { destination } from 'pino';
import { setImmediate, wallMs } from '../base/chance.ts';
import { isObject } from '../base/json-text.ts';
import { formatTimestamp } from '../base/moment.ts';
import { escapeLines } from '../base/text.ts';

/** A file that has grown to this is set aside as `<path>.1`, which replaces the one before. */
const maxBytes = 16 * 1_048_576;
/** Bytes between two looks at the size: other processes may write to the same file. */
const bytesPerLook = 1_048_576;

/** The log of a service whose standard output is a terminal. With the file set aside at most 32 MiB; mode 0600. */
class LogFile {
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

export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

type LogLevel = (typeof levels)[number];

/**
 * JSON lines on standard output, or in `file`. Callers pass named facts only, never requests, headers or settings: what is not
 * passed cannot leak. Errors are reduced to name, message and stack. `facts` are part of every line.
 */
export function createLog(level: LogLevel, facts: object = {}, file?: string): Log {
  const lines = createLineWriter(file);
  const everywhere = fieldsOf(facts);
  const writerOf = (label: keyof Log) => {
    if (levels.indexOf(label) < levels.indexOf(level)) return () => {};
    // The library's own lines would take twice as long, and there is one for each request.
    return (own: object, message: string) => {
      const start = `{"level":"${label}","time":"${formatTimestamp(wallMs())}"${everywhere}`;
      lines.write(`${start}${fieldsOf(own)},"msg":${JSON.stringify(message)}}\n`);
    };
  };
  return {
    debug: writerOf('debug'),
    info: writerOf('info'),
    warn: writerOf('warn'),
    error: writerOf('error'),
  };
}

/** Facts as they stand in a line, with a comma before each. Never throws: nobody expects that of a log. */
function fieldsOf(facts: object): string {
  try {
    const text = JSON.stringify('err' in facts ? { ...facts, err: describeError(facts.err) } : facts);
    return text === '{}' ? '' : `,${text.slice(1, -1)}`;
  } catch (error) {
    return `,"unwritable":${JSON.stringify(String(error))}`;
  }
}

/**
 * An error as the log shows it: no own properties, since libraries hang requests and headers on them. Some give a plain object
 * with the texts of an error. One that stands for several may have no message: theirs take its place.
 */
function describeError(error: unknown): object {
  if (!(error instanceof Error) && !isObject(error)) return { message: String(error) };
  const { name, message, stack, cause } = error as Partial<Error>;
  const all =
    error instanceof AggregateError ? error.errors.map((one) => (one as Partial<Error>).message) : [];
  return {
    ...(typeof name === 'string' && { name }),
    message: message || all.join('; ') || name || 'an error without a message',
    ...(typeof stack === 'string' && { stack }),
    ...(cause !== undefined && { cause: describeError(cause) }),
  };
}

/**
 * Writes lines to standard output or to a file. The lines of one turn of the event loop are written together at its end: a system
 * call for each would cost a busy process more than the lines themselves. Nothing is kept longer, and an orderly exit writes what
 * is left.
 */
function createLineWriter(file: string | undefined) {
  let output: { write(text: string): unknown } | undefined;
  let lines = '';
  const flush = () => {
    const text = lines;
    lines = '';
    if (text !== '') output?.write(isPlain(text) ? text : escapeLines(text));
  };
  return {
    write(line: string): void {
      // Opened with the first line: many loggers never write any.
      if (output === undefined) {
        output = file === undefined ? destination({ fd: 1, sync: true }) : new LogFile(file);
        process.once('exit', flush);
      }
      if (lines === '') setImmediate(flush);
      lines += line;
    },
  };
}

/**
 * Whether lines of JSON have no characters that act on a terminal or are invisible. JSON escapes control characters but
 * DEL; others are not ASCII. A regular expression would take ten times as long, for each request.
 */
function isPlain(lines: string): boolean {
  return Buffer.byteLength(lines) === lines.length && !lines.includes('\u007f');
}
