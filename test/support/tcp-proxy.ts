import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from './ports.ts';

/** A way between two programs that can be held at a chosen point, or cut. */
export interface TcpProxy {
  /** The URL of the server, with the proxy's host and port. */
  url: string;
  /** Keeps back what a client sends, from the chunk that holds `text` on: the server never sees it. */
  holdRequests(text: string): ProxyHold;
  /** Lets a chunk that holds `text` through and keeps back all that the server answers to it and later. */
  holdAnswers(text: string): ProxyHold;
  /** Breaks all connections, with what is held on them, and takes no new ones until `restore`. */
  cut(): Promise<void>;
  restore(): Promise<void>;
  close(): Promise<void>;
}

export interface ProxyHold {
  /** Resolves when so many connections have been held. For answers: when the first of each has come. */
  hit(count?: number): Promise<void>;
  /** Lets go what is held, where its connection still lives, and holds nothing more. */
  release(): void;
  /** Releases, and holds answers as `holdAnswers` does, on the same connections only. */
  releaseUntilAnswer(text: string): ProxyHold;
  /** Breaks the held connections, with what is kept back on them, and holds nothing more. */
  cut(): void;
}

/** A hold as the connections see it. */
class Hold implements ProxyHold {
  readonly direction: 'requests' | 'answers';
  readonly #text: string;
  readonly #holds: Set<Hold>;
  /** Undefined: any. */
  readonly #only: ReadonlySet<Connection> | undefined;
  #hits = 0;
  #over = false;
  readonly #connections = new Set<Connection>();
  readonly #waiting = new Set<() => void>();

  constructor(
    direction: 'requests' | 'answers',
    text: string,
    holds: Set<Hold>,
    only?: ReadonlySet<Connection>,
  ) {
    this.direction = direction;
    this.#text = text;
    this.#holds = holds.add(this);
    this.#only = only;
  }

  matches(chunk: Buffer, connection: Connection): boolean {
    return !this.#over && this.#only?.has(connection) !== false && chunk.includes(this.#text);
  }

  strike(connection: Connection): void {
    this.#connections.add(connection);
    this.#hits += 1;
    for (const check of this.#waiting) check();
  }

  hit(count = 1): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (this.#hits < count) return;
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
      check();
    });
  }

  release(): void {
    this.#over = true;
    for (const connection of this.#connections) connection.letGo(this);
  }

  releaseUntilAnswer(text: string): ProxyHold {
    const next = new Hold('answers', text, this.#holds, this.#connections);
    this.release();
    return next;
  }

  cut(): void {
    this.#over = true;
    for (const connection of this.#connections) connection.destroy();
  }
}

/** One connection, and what is kept back on it. */
class Connection {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #holds: ReadonlySet<Hold>;
  #heldBy: Hold | undefined;
  #kept: Buffer[] = [];
  #struck = false;

  constructor(client: Socket, server: Socket, holds: ReadonlySet<Hold>) {
    this.#client = client;
    this.#server = server;
    this.#holds = holds;
    client.on('data', (chunk: Buffer) => this.#onRequest(chunk));
    server.on('data', (chunk: Buffer) => this.#onAnswer(chunk));
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.setNoDelay();
      socket.on('error', () => {});
      // What is kept back is lost with the connection, as on a broken line.
      socket.once('close', () => other.destroy());
    }
  }

  #onRequest(chunk: Buffer): void {
    this.#heldBy ??= [...this.#holds].find((hold) => hold.matches(chunk, this));
    if (this.#heldBy?.direction === 'requests') this.#keep(chunk);
    else this.#server.write(chunk);
  }

  #onAnswer(chunk: Buffer): void {
    if (this.#heldBy?.direction === 'answers') this.#keep(chunk);
    else this.#client.write(chunk);
  }

  #keep(chunk: Buffer): void {
    this.#kept.push(chunk);
    if (!this.#struck) this.#heldBy?.strike(this);
    this.#struck = true;
  }

  letGo(hold: Hold): void {
    if (this.#heldBy !== hold) return;
    const target = hold.direction === 'requests' ? this.#server : this.#client;
    for (const chunk of this.#kept) target.write(chunk);
    this.#heldBy = undefined;
    this.#kept = [];
    this.#struck = false;
  }

  destroy(): void {
    this.#client.destroy();
    this.#server.destroy();
  }
}

/** Opens a port of the loopback interface that leads to the server of a URL; without a port, PostgreSQL's is meant. */
export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const url = new URL(target);
  const to = { host: url.hostname, port: Number(url.port || 5432) };
  const holds = new Set<Hold>();
  const connections = new Set<Connection>();
  const server = createServer((client) => {
    const connection = new Connection(client, connect(to), holds);
    connections.add(connection);
    client.once('close', () => connections.delete(connection));
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  const cut = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    for (const connection of connections) connection.destroy();
    await closed;
  };
  // Nobody else has it after a cut.
  const port = await freePort();
  await listen(port);
  url.host = `127.0.0.1:${port}`;
  return {
    url: url.href,
    holdRequests: (text) => new Hold('requests', text, holds),
    holdAnswers: (text) => new Hold('answers', text, holds),
    cut,
    restore: () => listen(port),
    close: async () => {
      if (server.listening) await cut();
    },
  };
}
