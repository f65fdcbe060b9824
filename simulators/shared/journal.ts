import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** A file of JSON lines that keeps what a simulator holds across restarts. */
export interface Journal<Line> {
  /** Writes one transaction as one line; returns once the operating system has it, so a killed process keeps it. */
  append(line: Line): void;
  close(): void;
}

/** Fewer entries than this are not worth rewriting. */
const COMPACT_ABOVE = 1000;

/** Bytes of `content` up to and including its last newline: what follows is a line torn by a killed process. */
function wholeLines(content: Buffer): Buffer {
  return content.subarray(0, content.lastIndexOf(10) + 1);
}

/**
 * Reads a journal and passes every line to `apply`.
 * A torn last line belongs to a call that was never answered: it is cut off, so that the next line starts clean.
 * @throws Error when a line other than the last can't be read: such a file was damaged, not torn.
 */
export function replayJournal(file: string, apply: (line: unknown) => void): void {
  if (!existsSync(file)) return;
  const content = readFileSync(file);
  const whole = wholeLines(content);
  if (whole.length < content.length) truncateSync(file, whole.length);
  let start = 0;
  for (let line = 1; start < whole.length; line += 1) {
    const end = whole.indexOf(10, start);
    const parsed = parseLine(whole.toString('utf8', start, end), file, line);
    start = end + 1;
    apply(parsed);
  }
}

function parseLine(text: string, file: string, line: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${file}: line ${line} is damaged`);
  }
}

/** Writes the present state beside the journal and replaces the journal with it in one step. */
function compact(file: string, lines: Iterable<unknown>): void {
  const temporary = `${file}.compact`;
  const descriptor = openSync(temporary, 'w', 0o600);
  for (const line of lines) writeLine(descriptor, line);
  closeSync(descriptor);
  renameSync(temporary, file);
}

function writeLine(descriptor: number, value: unknown): void {
  const line = Buffer.from(`${JSON.stringify(value)}\n`);
  // A write may be short: answering before the rest is there would lose an acknowledged record.
  for (let written = 0; written < line.length; ) written += writeSync(descriptor, line, written);
}

export interface JournalState<Line> {
  /** Entries that were read from the file. */
  read: number;
  /** Entries that are still alive. */
  alive: number;
  /** The present state as lines. */
  lines(): Iterable<Line>;
}

/** Opens the journal for appending, compacting it first when less than half of what it holds is still alive. */
export function openJournal<Line>(file: string, { read, alive, lines }: JournalState<Line>): Journal<Line> {
  mkdirSync(dirname(file), { recursive: true });
  if (read > COMPACT_ABOVE && read > 2 * alive) compact(file, lines());
  const descriptor = openSync(file, 'a', 0o600);
  return {
    append: (line) => writeLine(descriptor, line),
    close: () => closeSync(descriptor),
  };
}
