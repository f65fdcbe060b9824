import { nextTurn } from '../../platform/base/chance.ts';
import type { CrmRow } from '../mapping/records.ts';

export type TakeRow = (row: CrmRow) => boolean;

/** Bytes of one row at most: 1 MiB of text with every character escaped stays below. */
const maxRowBytes = 16 * 1024 * 1024;
/** Bytes of all that stands around the rows. */
const maxFrameBytes = 64 * 1024;
/** Bytes after which the event loop may do other work. */
const sliceBytes = 128 * 1024;

const quote = 34;
const backslash = 92;

/**
 * Reads the answer to a query row by row, so that memory holds one row and what `take` keeps.
 * `parse` reads a row; `frameDepth` objects and arrays stand around each row: 2 in a query's own answer. Returns the answer with a 0 instead of each row; undefined where `take` refused one, and the rest was not read.
 * Throws `SyntaxError` for what is not JSON, `RangeError` for a row that is too long.
 */
export async function readRowStream(
  chunks: AsyncIterable<Uint8Array>,
  take: TakeRow,
  { frameDepth = 2, parse = JSON.parse }: { frameDepth?: number; parse?: (text: string) => unknown } = {},
): Promise<unknown> {
  const cutter = new RowCutter(frameDepth);
  let unyielded = 0;
  for await (const chunk of chunks) {
    unyielded += chunk.length;
    for (const row of cutter.cut(chunk)) if (!take(parse(row) as CrmRow)) return undefined;
    if (unyielded >= sliceBytes) {
      unyielded = 0;
      await nextTurn();
    }
  }
  return JSON.parse(cutter.frame);
}

class RowCutter {
  frame = '';
  readonly #frameDepth: number;
  #row: Uint8Array[] = [];
  #rowBytes = 0;
  #depth = 0;
  #inString = false;
  #isEscaped = false;

  constructor(frameDepth: number) {
    this.#frameDepth = frameDepth;
  }

  *cut(chunk: Uint8Array): Generator<string> {
    let start = 0;
    let at = this.#inString ? this.#endOfString(chunk, 0) : 0;
    while (at < chunk.length) {
      const code = chunk[at] as number;
      if (code === quote) {
        at = this.#endOfString(chunk, at + 1);
        continue;
      }
      if (opens(code)) {
        if (this.#depth === this.#frameDepth) start = this.#keep(chunk, start, at);
        this.#depth += 1;
      } else if (closes(code)) {
        if (this.#depth === this.#frameDepth + 1) {
          start = this.#keep(chunk, start, at + 1);
          yield this.#endRow();
        }
        this.#depth -= 1;
      }
      at += 1;
    }
    this.#keep(chunk, start, chunk.length);
  }

  #endOfString(chunk: Uint8Array, start: number): number {
    let at = this.#isEscaped ? start + 1 : start;
    while (at < chunk.length) {
      const code = chunk[at];
      if (code === quote) break;
      at += code === backslash ? 2 : 1;
    }
    this.#inString = at >= chunk.length;
    this.#isEscaped = at > chunk.length;
    return Math.min(at + 1, chunk.length);
  }

  #keep(chunk: Uint8Array, start: number, end: number): number {
    const part = chunk.subarray(start, end);
    if (this.#depth > this.#frameDepth) {
      this.#row.push(part);
      this.#rowBytes += part.length;
      if (this.#rowBytes > maxRowBytes) throw new RangeError(`a row has more than ${maxRowBytes} bytes`);
    } else {
      // Nothing but ASCII is looked at.
      this.frame += Buffer.from(part).toString('latin1');
      if (this.frame.length > maxFrameBytes)
        throw new RangeError(`there are more than ${maxFrameBytes} bytes around the rows`);
    }
    return end;
  }

  #endRow(): string {
    const text = Buffer.concat(this.#row).toString('utf8');
    this.#row = [];
    this.#rowBytes = 0;
    this.frame += '0';
    return text;
  }
}

function opens(code: number): boolean {
  return code === 123 || code === 91;
}

function closes(code: number): boolean {
  return code === 125 || code === 93;
}
