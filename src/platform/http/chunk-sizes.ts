const carriageReturn = 0x0d;
const lineEndBytes = 2;

/** Follows the sizes of a body in chunks (RFC 9112 section 7.1). Whether they are well-formed, the parser decides. */
export class ChunkSizes {
  /** The size that the present line has said so far. */
  #size = 0;
  #isExtension = false;
  /** Bytes until the next line with a size. */
  #left = 0;

  /** How many of the bytes come before the end of the last chunk's line: all of them, unless it is there. */
  follow(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length) {
      const passed = Math.min(this.#left, bytes.length - at);
      this.#left -= passed;
      at = this.#readLine(bytes, at + passed);
      if (at === bytes.length || this.#size === 0) return at;
      this.#left = lineEndBytes + this.#size + lineEndBytes;
      this.#size = 0;
      this.#isExtension = false;
    }
    return at;
  }

  #readLine(bytes: Buffer, from: number): number {
    let at = from;
    for (; at < bytes.length && bytes[at] !== carriageReturn; at++) {
      const digit = hexDigitOf(bytes[at] as number);
      this.#isExtension ||= digit === undefined;
      if (digit !== undefined && !this.#isExtension) this.#size = this.#size * 16 + digit;
    }
    return at;
  }
}

function hexDigitOf(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : undefined;
}
