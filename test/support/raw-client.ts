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

/** Connects to the host and port of a URL, with TLS where it says https; from this address where one is given. */
export async function connectRaw(url: string, localAddress?: string): Promise<RawClient> {
  const { hostname, port, protocol } = new URL(url);
  const target = { host: hostname, port: Number(port), noDelay: true, ...(localAddress && { localAddress }) };
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
  const next = async (): Promise<Buffer | undefined> => {
    chunks ??= socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    const { done, value } = await chunks.next().catch(() => ({ done: true, value: undefined }));
    return done ? undefined : value;
  };
  /** Joins them once: bodies may be long. */
  const readBytes = async (length: number): Promise<boolean> => {
    const parts = [rest];
    for (let missing = length - rest.length; missing > 0; missing -= parts.at(-1)?.length ?? 0) {
      const chunk = await next();
      if (chunk === undefined) return false;
      parts.push(chunk);
    }
    rest = Buffer.concat(parts);
    return true;
  };
  return async (toHead = false) => {
    while (!rest.includes('\r\n\r\n')) {
      const chunk = await next();
      if (chunk === undefined) return undefined;
      rest = Buffer.concat([rest, chunk]);
    }
    const end = rest.indexOf('\r\n\r\n');
    const { status, headers } = parseHead(rest.subarray(0, end).toString('latin1'));
    const hasBody = !toHead && status >= 200 && status !== 204 && status !== 304;
    const length = end + 4 + (hasBody ? Number(headers['content-length'] ?? 0) : 0);
    if (!(await readBytes(length))) return undefined;
    const body = rest.subarray(end + 4, length);
    rest = rest.subarray(length);
    return { status, headers, body };
  };
}

function parseHead(head: string): Pick<RawAnswer, 'status' | 'headers'> {
  const [first = '', ...lines] = head.split('\r\n');
  const headers = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 2)];
  });
  return { status: Number(first.split(' ')[1]), headers: Object.fromEntries(headers) };
}
