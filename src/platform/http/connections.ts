import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clearInterval, monotonicMs, setImmediate, setInterval } from '../base/chance.ts';
import { ChunkSizes } from './chunk-sizes.ts';
import { type OpenConnection, OpenConnections, type OriginOf } from './open-connections.ts';

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
 *
 * So a connection holds one answer. What all of them hold is bounded too: `UnsentAnswers`.
 */

export interface ConnectionLimits {
  max: number;
  /** How long a client may leave an answer unread: no byte of it can be handed to the kernel. Milliseconds. */
  unreadMs: number;
  /** Unread bytes of answers, of all clients together. */
  unsentBytes: number;
}

/**
 * Why a connection was refused or closed. `idle`: it had no request in progress, and was replaced by a new one at the
 * limit of connections.
 */
export type ConnectionEnd = 'limit' | 'idle' | 'unread';

/** For each of our servers: the unread bytes are those of sixteen of the longest pages. */
export const answerLimits = { unreadMs: 30_000, unsentBytes: 64 * 1_048_576 };

/** Checks without progress before a connection is cut off; one each sixth of `unreadMs`. */
const stuckChecksAllowed = 6;

/** Answers are handed to the socket in chunks of this size: progress shows, and TLS makes no copy of a whole answer. */
const chunkBytes = 64 * 1024;

const endOfHead = Buffer.from('\r\n\r\n');
const nothing = Buffer.alloc(0);

export type { OriginOf };

const connections = new WeakMap<Socket, Connection>();
const sharedBodies = new WeakSet<Buffer>();

/** Marks a body that stays in memory anyway: it does not count for each client that reads it. */
export function markShared(bytes: Buffer): void {
  sharedBodies.add(bytes);
}

/** Counts the unread bytes of an answer for this caller; by default they count for the address of the connection. */
export function attributeTo(response: ServerResponse, caller: string): void {
  if (response instanceof TrackedResponse) response.caller = caller;
}

class TrackedResponse<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {
  readonly #connection: Connection | undefined;
  caller: string | undefined;

  constructor(...given: ConstructorParameters<typeof ServerResponse<R>>) {
    super(...given);
    const [request] = given;
    this.#connection = connections.get(request.socket);
    this.#connection?.begin(request, this);
  }

  override end(...given: unknown[]): this {
    const [body, encoding, callback] = given;
    if (!encoding && !callback && isLong(body)) {
      const bytes = typeof body === 'string' ? Buffer.from(body) : body;
      // A subarray keeps the whole buffer in memory.
      this.#send(bytes, sharedBodies.has(bytes) ? chunkBytes : bytes.length);
    } else {
      super.end(...(given as []));
      // Most short answers are in the kernel by now.
      const left = this.socket?.writableLength ?? 0;
      if (left > 0) this.#connection?.noteUnsent(this, left);
    }
    return this;
  }

  #send(bytes: Buffer, held: number): void {
    if (!this.destroyed) this.#connection?.noteUnsent(this, held);
    if (bytes.length === 0) return void super.end();
    const rest = bytes.subarray(chunkBytes);
    if (this.write(bytes.subarray(0, chunkBytes))) this.#send(rest, held);
    else this.once('drain', () => this.#send(rest, held));
  }
}

function isLong(body: unknown): body is string | Buffer {
  return (typeof body === 'string' || Buffer.isBuffer(body)) && body.length > chunkBytes;
}

export const trackedResponses = { ServerResponse: TrackedResponse };

/**
 * Holds the connections of a server to their limits. `event`: the one that brings a connection on which HTTP is spoken.
 * `onEnd` is called for each connection that was refused or ended.
 */
export function limitConnections(
  server: Server,
  event: 'connection' | 'secureConnection',
  { max, unreadMs, unsentBytes, originOf }: ConnectionLimits & { originOf: OriginOf },
  onEnd: (why: ConnectionEnd) => void = () => {},
): void {
  const openConnections = new OpenConnections(max, originOf);
  const handshakes = new Map<string, OpenConnection>();
  const open = new Set<Connection>();
  const end = (socket: Socket, why: ConnectionEnd) => {
    socket.destroy();
    onEnd(why);
  };
  const unsent = new UnsentAnswers(unsentBytes, ({ socket }) => {
    if (socket) end(socket, 'unread');
  });
  const begin = (socket: Socket, entry: OpenConnection) => {
    const connection = new Connection(socket, entry, unsent);
    connections.set(socket, connection);
    open.add(connection);
    socket.once('close', () => open.delete(connection));
  };
  server.on('connection', (socket: Socket) => {
    const entry = openConnections.add(socket, (idle) => end(idle, 'idle'));
    if (entry === undefined) return end(socket, 'limit');
    socket.once('close', () => entry.close());
    if (event === 'connection') return begin(socket, entry);
    const ends = endsOf(socket);
    handshakes.set(ends, entry);
    socket.once('close', () => handshakes.delete(ends));
  });
  if (event === 'secureConnection') {
    server.on(event, (socket: Socket) => {
      const entry = handshakes.get(endsOf(socket));
      // None: the client has closed the connection.
      if (entry === undefined) socket.destroy();
      else begin(socket, entry);
    });
  }
  const checks = setInterval(() => {
    for (const connection of open) if (connection.cutOffIfStuck()) onEnd('unread');
  }, unreadMs / stuckChecksAllowed).unref();
  server.once('close', () => clearInterval(checks));
}

export function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return [remoteAddress, remotePort, localAddress, localPort].join(' ');
}

class Connection {
  readonly #socket: Socket;
  readonly #entry: OpenConnection;
  readonly #unsent: UnsentAnswers;
  readonly #address: string;
  readonly #parse: (bytes: Buffer) => void;
  /** Bytes that were read and not parsed: a subarray of one read. */
  #rest: Buffer = nothing;
  #request: IncomingMessage | undefined;
  /** Bytes of its body that have not come yet, where its length was given. */
  #bodyBytes = 0;
  /** Undefined where no chunk of a body is awaited. */
  #chunks: ChunkSizes | undefined;
  #unanswered = 0;
  #isHeld = false;
  #sentBytes = 0;
  #stuckChecks = 0;

  constructor(socket: Socket, entry: OpenConnection, unsent: UnsentAnswers) {
    this.#socket = socket;
    this.#entry = entry;
    this.#unsent = unsent;
    this.#address = socket.remoteAddress ?? '';
    // Node's own listener parses what it is given.
    const [parse] = socket.listeners('data');
    this.#parse = parse as (bytes: Buffer) => void;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.removeListener('data', this.#parse);
  }

  begin(request: IncomingMessage, response: TrackedResponse): void {
    this.#entry.markBusy();
    this.#request = request;
    this.#bodyBytes = Number(request.headers['content-length'] ?? 0);
    this.#chunks = request.headers['transfer-encoding'] === undefined ? undefined : new ChunkSizes();
    this.#unanswered += 1;
    response.on('close', () => {
      this.#unanswered -= 1;
      this.noteUnsent(response, 0);
      // Other connections come first: a client could fill this turn of the event loop with pipelined requests.
      if (this.#rest.length > 0) setImmediate(() => this.#advance());
      else this.#markIdleIfDone();
    });
  }

  noteUnsent(response: TrackedResponse, bytes: number): void {
    this.#unsent.note(response, response.caller ?? this.#address, bytes);
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
    this.#markIdleIfDone();
  }

  #markIdleIfDone(): void {
    if (this.#unanswered === 0) this.#entry.markIdle();
  }

  #mustWait(): boolean {
    if (this.#unanswered === 0 || !this.#socket.writable) return false;
    return this.#unanswered > 1 || this.#request?.complete === true;
  }

  /**
   * How many bytes belong to one request: of a body what its length or the sizes of its chunks say; otherwise up to an empty
   * line, which ends heads, and bodies after their last chunk. An end that is incomplete is kept back, so that no second head
   * can follow it.
   */
  #nextLength(): number {
    if (this.#bodyBytes > 0) {
      const length = Math.min(this.#bodyBytes, this.#rest.length);
      this.#bodyBytes -= length;
      return length;
    }
    const chunks = this.#chunks?.follow(this.#rest) ?? 0;
    const rest = this.#rest.subarray(chunks);
    if (rest.length === 0) return chunks;
    this.#chunks = undefined;
    const end = rest.indexOf(endOfHead);
    return chunks + (end < 0 ? rest.length - begunEnd(rest) : end + endOfHead.length);
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

/** Bytes at the end that may begin the end of a head. */
function begunEnd(bytes: Buffer): number {
  for (const length of [3, 2, 1]) {
    if (bytes.subarray(-length).equals(endOfHead.subarray(0, length))) return length;
  }
  return 0;
}

/** Up to this many milliseconds without progress are usual for a client that reads: only the bytes count. */
const usualPauseMs = 1000;

interface Share {
  caller: string;
  bytes: number;
  answers: Map<ServerResponse, { bytes: number; at: number }>;
}

/**
 * Counts the bytes of answers that clients have not read. Beyond the limit, connections are closed until it holds again: of
 * each caller the connection without progress for longest is considered, and the one whose caller's bytes, multiplied by
 * its milliseconds without progress, are most is closed. So a client that does not read delays no other, and a client that
 * pauses is not closed because another caller fills the memory and reads a little now and then.
 */
export class UnsentAnswers {
  readonly #most: number;
  readonly #cutOff: (answer: ServerResponse) => void;
  readonly #shares = new Map<string, Share>();
  #bytes = 0;

  constructor(most: number, cutOff: (answer: ServerResponse) => void) {
    this.#most = most;
    this.#cutOff = cutOff;
  }

  /**
   * Notes that an answer has made progress, and how many bytes are in memory for it. `caller`: the same for each call about
   * this answer.
   */
  note(answer: ServerResponse, caller: string, bytes: number): void {
    const share = this.#shares.get(caller);
    if (share !== undefined) this.#remove(answer, share);
    if (bytes === 0) return;
    this.#add(answer, caller, bytes);
    let isOver = this.#bytes > this.#most;
    while (isOver) isOver = this.#cutOffOne(answer) && this.#bytes > this.#most;
  }

  #add(answer: ServerResponse, caller: string, bytes: number): void {
    const share = this.#shares.get(caller) ?? { caller, bytes: 0, answers: new Map() };
    this.#shares.set(caller, share);
    share.answers.set(answer, { bytes, at: monotonicMs() });
    share.bytes += bytes;
    this.#bytes += bytes;
  }

  #remove(answer: ServerResponse, share: Share): void {
    const bytes = share.answers.get(answer)?.bytes ?? 0;
    share.answers.delete(answer);
    share.bytes -= bytes;
    this.#bytes -= bytes;
    if (share.answers.size === 0) this.#shares.delete(share.caller);
  }

  /** Cuts off one answer; whether there was one. Never `latest`, which has just made progress. */
  #cutOffOne(latest: ServerResponse): boolean {
    const now = monotonicMs();
    let found: { answer: ServerResponse; share: Share } | undefined;
    let most = 0;
    for (const share of this.#shares.values()) {
      for (const [answer, { at }] of share.answers) {
        const weight = share.bytes * Math.max(usualPauseMs, now - at);
        if (answer !== latest && weight > most) [found, most] = [{ answer, share }, weight];
        // The other answers of this caller have made progress since.
        break;
      }
    }
    if (found === undefined) return false;
    this.#remove(found.answer, found.share);
    this.#cutOff(found.answer);
    return true;
  }
}
