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
import type { Row } from './schema.ts';

/** `[object, row]` for a record written, `[object, id]` for one deleted. */
export type JournalEntry = [object: string, change: Row | string];

export interface Journal {
  /** Writes one transaction as one line; returns once the operating system has it, so a killed process keeps it. */
  append(entries: JournalEntry[]): void;
  close(): void;
}

export interface JournalSnapshot {
  entries(): Iterable<JournalEntry>;
  counters(): Record<string, number>;
}

interface Header {
  counters: Record<string, number>;
}

/** Fewer lines than this are not worth rewriting. */
const COMPACT_ABOVE = 1000;

/** Bytes of `content` up to and including its last newline: what follows is a line torn by a killed process. */
function wholeLines(content: Buffer): Buffer {
  return content.subarray(0, content.lastIndexOf(10) + 1);
}

/**
 * Reads a journal and passes every entry to `apply`, every saved counter to `restore`.
 * A torn last line belongs to a call that was never answered: it is cut off, so that the next line starts clean.
 * @returns the number of entries read.
 * @throws Error when a line other than the last can't be read: such a file was damaged, not torn.
 */
export function replayJournal(
  file: string,
  apply: (entry: JournalEntry) => void,
  restore: (counters: Record<string, number>) => void,
): number {
  if (!existsSync(file)) return 0;
  const content = readFileSync(file);
  const whole = wholeLines(content);
  if (whole.length < content.length) truncateSync(file, whole.length);
  let count = 0;
  let start = 0;
  for (let line = 1; start < whole.length; line += 1) {
    const end = whole.indexOf(10, start);
    const parsed = parseLine(whole.toString('utf8', start, end), file, line);
    start = end + 1;
    if (Array.isArray(parsed)) {
      for (const entry of parsed) apply(entry);
      count += parsed.length;
    } else {
      restore(parsed.counters);
    }
  }
  return count;
}

function parseLine(text: string, file: string, line: number): JournalEntry[] | Header {
  try {
    return JSON.parse(text) as JournalEntry[] | Header;
  } catch {
    throw new Error(`${file}: line ${line} is damaged`);
  }
}

/** Writes the present state beside the journal and puts it in its place in one step. */
function compact(file: string, snapshot: JournalSnapshot): void {
  const temporary = `${file}.compact`;
  const descriptor = openSync(temporary, 'w', 0o600);
  const header: Header = { counters: snapshot.counters() };
  writeLine(descriptor, header);
  for (const entry of snapshot.entries()) writeLine(descriptor, [entry]);
  closeSync(descriptor);
  renameSync(temporary, file);
}

function writeLine(descriptor: number, value: unknown): void {
  const line = Buffer.from(`${JSON.stringify(value)}\n`);
  // A write may be short: answering before the rest is there would lose an acknowledged record.
  for (let written = 0; written < line.length; ) written += writeSync(descriptor, line, written);
}

/**
 * Opens the journal for appending, compacting it first when less than half of what it holds is still alive.
 * @param entriesRead what `replayJournal` returned for this file.
 */
export function openJournal(
  file: string,
  entriesRead: number,
  entriesAlive: number,
  snapshot: JournalSnapshot,
): Journal {
  mkdirSync(dirname(file), { recursive: true });
  if (entriesRead > COMPACT_ABOVE && entriesRead > 2 * entriesAlive) compact(file, snapshot);
  const descriptor = openSync(file, 'a', 0o600);
  return {
    append: (entries) => writeLine(descriptor, entries),
    close: () => closeSync(descriptor),
  };
}
