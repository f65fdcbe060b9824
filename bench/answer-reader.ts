const headEnd = Buffer.from('\r\n\r\n');
const endOfLine = Buffer.from('\r\n');

/**
 * Reads HTTP/1.1 answers off a connection, one after the other, for a client that needs only their status and where
 * they end. Bodies come with Content-Length or chunked; one that ends with the connection is refused.
 */
export class AnswerReader {
  #received: Buffer = Buffer.alloc(0);

  /** The status, when these bytes complete the answer; else undefined. Throws on what is no such answer. */
  push(bytes: Buffer): number | undefined {
    this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes]);
    const head = this.#received.indexOf(headEnd);
    if (head === -1) return undefined;
    const text = this.#received.toString('latin1', 0, head);
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1]);
    if (!status) throw new Error(`no HTTP answer: ${text.slice(0, 80)}`);
    const end = this.#endOfBody(text, status, head + headEnd.length);
    if (end === undefined || end > this.#received.length) return undefined;
    this.#received = this.#received.subarray(end);
    return status;
  }

  /** Where the body ends; undefined while that is not known yet. */
  #endOfBody(head: string, status: number, start: number): number | undefined {
    if (status === 204 || status === 304) return start;
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    if (length !== undefined) return start + Number(length);
    if (/\r\ntransfer-encoding: *chunked/i.test(head)) return this.#endOfChunks(start);
    throw new Error(`an answer without a length: ${head}`);
  }

  #endOfChunks(start: number): number | undefined {
    for (let at = start; ; ) {
      const line = this.#received.indexOf(endOfLine, at);
      if (line === -1) return undefined;
      const size = Number.parseInt(this.#received.toString('latin1', at, line), 16);
      // A chunk of size 0 ends the body; nobody here sends trailers.
      at = line + endOfLine.length + size + endOfLine.length;
      if (size === 0) return at;
    }
  }
}
