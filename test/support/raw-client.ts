import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface RawAnswer {
  status: number;
  /** Names in lower case. */
  headers: Record<string, string>;
  body: Buffer;
}

/** A client that writes bytes as they are, and reads answers one after the other. */
export interface RawClient {
  readonly socket: Socket;
  write(bytes: string | Uint8Array): void;
  /**
   * The next answer, whose body has a Content-Length; undefined where the connection ended before it was complete.
   * `toHead`: it has no body.
   */
  answer(toHead?: boolean): Promise<RawAnswer | undefined>;
  /** Resolves when the connection is closed. */
  readonly closed: Promise<unknown>;
}

/** Connects to the host and port of a URL, with TLS where it says https. */
export async function connectRaw(url: string): Promise<RawClient> {
  const { hostname, port, protocol } = new URL(url);
  const target = { host: hostname, port: Number(port), noDelay: true };
  const isSecure = protocol === 'https:';
  const socket = isSecure ? connectTls({ ...target, rejectUnauthorized: false }) : connect(target);
  await once(socket, isSecure ? 'secureConnect' : 'connect');
  // A reset is an end like any other; what came before it has been read.
  socket.on('error', () => {});
  const closed = new Promise((resolve) => {
    socket.once('close', resolve);
  });
  const read = readerOf(socket);
  return { socket, write: (bytes) => void socket.write(bytes), answer: (toHead) => read(toHead), closed };
}

/** Reads with the first call only: a client that never asks for an answer leaves what comes unread. */
function readerOf(socket: Socket): (toHead?: boolean) => Promise<RawAnswer | undefined> {
  let chunks: AsyncIterator<Buffer> | undefined;
  let rest: Buffer = Buffer.alloc(0);
  const readUntil = async (isThere: () => boolean): Promise<boolean> => {
    chunks ??= socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    while (!isThere()) {
      const { done, value } = await chunks.next().catch(() => ({ done: true, value: undefined }));
      if (done || value === undefined) return false;
      rest = Buffer.concat([rest, value]);
    }
    return true;
  };
  return async (toHead = false) => {
    if (!(await readUntil(() => rest.includes('\r\n\r\n')))) return undefined;
    const end = rest.indexOf('\r\n\r\n');
    const [first = '', ...lines] = rest.subarray(0, end).toString('latin1').split('\r\n');
    const status = Number(first.split(' ')[1]);
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 2),
      ]),
    );
    const hasBody = !toHead && status >= 200 && status !== 204 && status !== 304;
    const length = end + 4 + (hasBody ? Number(headers['content-length'] ?? 0) : 0);
    if (!(await readUntil(() => rest.length >= length))) return undefined;
    const body = rest.subarray(end + 4, length);
    rest = rest.subarray(length);
    return { status, headers, body };
  };
}
