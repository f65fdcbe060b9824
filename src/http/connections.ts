import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/*
 * What one connection may cost. Node parses all that a read brings and starts every request in it at once: 64 KiB of
 * small pipelined requests are 2,600 requests in progress, each with its answer, for a client that may never read one.
 * Here the parser gets the bytes of one request at a time:
 *
 *   waiting for a head ── end of head ──> body (by its length, or chunks) ── end of body ──> waiting for the answer
 *          ^                                                                                        │
 *          └──────────────────────────────── the kernel has taken all of it ────────────────────────┘
 *
 * What comes meanwhile is kept, up to what one read brings, and then no more is read: requests wait in the socket.
 */

/** What a client may do with its connections. */
export interface ConnectionLimits {
  /** Connections at once; further ones are closed unanswered. */
  max: number;
  /** How long a client may leave an answer unread: no byte of it can be handed to the kernel. Milliseconds. */
  unreadMs: number;
}

/** Why a connection was refused, or ended before its time. */
export type ConnectionEnd = 'limit' | 'unread';

export const unreadAnswerMs = 30_000;

/** After so many checks without progress a connection is cut off, so within a sixth more than `unreadMs`. */
const stuckChecksAllowed = 6;

/** Answers are handed to the socket in pieces of this size: progress shows, and TLS makes no copy of a whole answer. */
const pieceBytes = 64 * 1024;

const endOfHead = Buffer.from('\r\n\r\n');
const nothing = Buffer.alloc(0);

const connections = new WeakMap<Socket, Connection>();

/** An answer that is sent as the client takes it, and that notifies its connection when it ends. */
class PacedResponse<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {
  constructor(...given: ConstructorParameters<typeof ServerResponse<R>>) {
    super(...given);
    const [request] = given;
    connections.get(request.socket)?.begin(request, this);
  }

  override end(...given: unknown[]): this {
    const [body, encoding, callback] = given;
    const isLong = (typeof body === 'string' || Buffer.isBuffer(body)) && body.length > pieceBytes;
    if (!isLong || encoding || callback) return super.end(...(given as []));
    this.#send(typeof body === 'string' ? Buffer.from(body) : body);
    return this;
  }

  #send(bytes: Buffer): void {
    if (bytes.length === 0) return void super.end();
    const rest = bytes.subarray(pieceBytes);
    if (this.write(bytes.subarray(0, pieceBytes))) this.#send(rest);
    else this.once('drain', () => this.#send(rest));
  }
}

/** Options for `createServer` of each server that is passed to `limitConnections`. */
export const pacedAnswers = { ServerResponse: PacedResponse };

/**
 * Holds the connections of a server to their limits. `event`: the one that brings a connection on which HTTP is spoken.
 * `onEnd` is called for each connection that was refused or cut off.
 */
export function limitConnections(
  server: Server,
  event: 'connection' | 'secureConnection',
  { max, unreadMs }: ConnectionLimits,
  onEnd: (why: ConnectionEnd) => void = () => {},
): void {
  const open = new Set<Connection>();
  server.maxConnections = max;
  // Otherwise several processes on one port would hand the connection from one to the next without end.
  Object.assign(server, { dropMaxConnection: true });
  server.on('drop', () => onEnd('limit'));
  server.on(event, (socket: Socket) => {
    const connection = new Connection(socket);
    connections.set(socket, connection);
    open.add(connection);
    socket.once('close', () => open.delete(connection));
  });
  const checks = setInterval(() => {
    for (const connection of open) if (connection.cutOffIfStuck()) onEnd('unread');
  }, unreadMs / stuckChecksAllowed).unref();
  server.once('close', () => clearInterval(checks));
}

/** One connection: gives the parser one request at a time. */
class Connection {
  readonly #socket: Socket;
  readonly #parse: (bytes: Buffer) => void;
  /** What has been read and not been parsed: a subarray of one read. */
  #rest: Buffer = nothing;
  /** The last one whose head was parsed. */
  #request: IncomingMessage | undefined;
  /** Bytes of its body that have not come yet, where its length was given. */
  #bodyBytes = 0;
  /** Answers that the kernel has not taken yet. */
  #unanswered = 0;
  #isHeld = false;
  #sentBytes = 0;
  #stuckChecks = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
    // Node's own listener parses what it is given.
    const [parse] = socket.listeners('data');
    this.#parse = parse as (bytes: Buffer) => void;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.removeListener('data', this.#parse);
  }

  /** A head was parsed. */
  begin(request: IncomingMessage, response: ServerResponse): void {
    this.#request = request;
    this.#bodyBytes = Number(request.headers['content-length'] ?? 0);
    this.#unanswered += 1;
    response.on('close', () => {
      this.#unanswered -= 1;
      // Other connections come first: a client could fill this turn of the event loop with pipelined requests.
      if (this.#rest.length > 0) setImmediate(() => this.#advance());
    });
  }

  /** To be called at even intervals; cuts the connection off when its client has read nothing over several of them. */
  cutOffIfStuck(): boolean {
    const { writableLength, writableEnded, bytesWritten, destroyed } = this.#socket;
    const isWriting = !destroyed && (writableLength > 0 || writableEnded);
    const hasMoved = bytesWritten !== this.#sentBytes;
    this.#sentBytes = bytesWritten;
    this.#stuckChecks = isWriting && !hasMoved ? this.#stuckChecks + 1 : 0;
    if (this.#stuckChecks < stuckChecksAllowed) return false;
    this.#socket.destroy();
    return true;
  }

  #take(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#advance();
  }

  #advance(): void {
    while (this.#rest.length > 0) {
      if (this.#mustWait()) return this.#hold();
      const length = this.#nextLength();
      if (length === 0) break;
      const bytes = this.#rest;
      this.#rest = length === bytes.length ? nothing : bytes.subarray(length);
      // Nothing is expected after a fault or a last answer; the parser of a closed connection may be another one's.
      if (this.#socket.writable) this.#parse(length === bytes.length ? bytes : bytes.subarray(0, length));
      else this.#rest = nothing;
    }
    this.#release();
  }

  /** Until an answer is out, unless it is the body of its own request that comes. */
  #mustWait(): boolean {
    if (this.#unanswered === 0 || !this.#socket.writable) return false;
    return this.#unanswered > 1 || this.#request?.complete === true;
  }

  /**
   * How many bytes belong to one request: of a body what its length says; otherwise up to an empty line, which ends heads
   * and chunked bodies. An end that is incomplete is kept back, so that no second head can follow it.
   */
  #nextLength(): number {
    if (this.#bodyBytes > 0) {
      const length = Math.min(this.#bodyBytes, this.#rest.length);
      this.#bodyBytes -= length;
      return length;
    }
    const end = this.#rest.indexOf(endOfHead);
    return end < 0 ? this.#rest.length - begunEnd(this.#rest) : end + endOfHead.length;
  }

  #hold(): void {
    this.#isHeld = true;
    this.#socket.pause();
  }

  #release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#socket.resume();
  }
}

/** How many bytes at the end may be the beginning of the end of a head. */
function begunEnd(bytes: Buffer): number {
  for (const length of [3, 2, 1]) {
    if (bytes.subarray(-length).equals(endOfHead.subarray(0, length))) return length;
  }
  return 0;
}
