import type net from 'node:net';
import { Duplex } from 'node:stream';
import type { Actor, World } from './world.ts';

export interface Fate {
  /** Milliseconds on the way, each way. */
  delayMs: number;
  /** The connection is refused. */
  isRefused?: boolean;
  /** Nothing arrives. */
  isHung?: boolean;
}

/** Says how a new connection fares: from which process, to which one. */
export type Fates = (from: Actor | undefined, to: Actor | undefined) => Fate;

/** One end of a connection in memory, with what `net.Socket` has. */
class VirtualSocket extends Duplex {
  readonly #network: Network;
  readonly actor: Actor | undefined;
  peer: VirtualSocket | undefined;
  fate: Fate = { delayMs: 0 };
  connecting = false;
  bytesRead = 0;
  bytesWritten = 0;
  localAddress = '127.0.0.1';
  remoteAddress: string | undefined = '127.0.0.1';
  remoteFamily = 'IPv4';
  localPort = 0;
  remotePort = 0;
  server: net.Server | undefined;
  /** Bytes of one direction arrive in their order. */
  #arrivesAt = 0;
  readonly #die = () => this.#reset();

  constructor(network: Network, actor: Actor | undefined) {
    super({ allowHalfOpen: false, autoDestroy: true, highWaterMark: 1 << 20 });
    this.#network = network;
    this.actor = actor;
    actor?.onKilled.add(this.#die);
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.bytesWritten += chunk.length;
    const { actor, peer: to } = this;
    if (to?.actor !== undefined) actor?.reach(`call to ${to.actor.name}`);
    this.#toPeer((peer) => {
      peer.bytesRead += chunk.length;
      peer.push(chunk);
    });
    done();
  }

  override _final(done: () => void): void {
    this.#toPeer((peer) => peer.push(null));
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const isClean = this.writableFinished;
    this.actor?.onKilled.delete(this.#die);
    this.#toPeer((peer) => {
      if (!isClean) peer.destroy(connectionError('ECONNRESET'));
      else if (!peer.readableEnded) peer.push(null);
    });
    if (this.server !== undefined) this.#network.left(this.server);
    done(error);
  }

  /** Its process is no more: the other end learns of it, and nothing it still writes arrives. */
  #reset(): void {
    this.#toPeer((peer) => peer.destroy(connectionError('ECONNRESET')));
    this.fate = { ...this.fate, isHung: true };
  }

  #toPeer(arrive: (peer: VirtualSocket) => void): void {
    const { peer, fate } = this;
    if (peer === undefined || fate.isHung) return;
    const { world } = this.#network;
    this.#arrivesAt = Math.max(this.#arrivesAt, world.elapsed + fate.delayMs);
    const ms = this.#arrivesAt - world.elapsed;
    world.schedule(ms, () => !peer.destroyed && arrive(peer), { actor: peer.actor });
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  address(): object {
    return { address: this.localAddress, port: this.localPort, family: 'IPv4' };
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  resetAndDestroy(): this {
    return this.destroy(connectionError('ECONNRESET'));
  }
}

function connectionError(code: string): Error {
  return Object.assign(new Error(code === 'ECONNRESET' ? 'read ECONNRESET' : `connect ${code}`), { code });
}

interface Listening {
  server: net.Server;
  actor: Actor | undefined;
}

/** Ports and connections in memory. */
export class Network {
  readonly world: World;
  readonly #fates: Fates;
  readonly #ports = new Map<number, Listening>();
  #nextPort = 20_000;

  constructor(world: World, fates: Fates) {
    this.world = world;
    this.#fates = fates;
  }

  /** Replaces `net.Server.prototype.listen`. */
  listenMethod() {
    const listen = (server: net.Server, port: number, callback: (() => void) | undefined) =>
      this.#listen(server, port || this.#nextPort++, callback);
    return function (this: net.Server, ...given: unknown[]): net.Server {
      const [first] = given;
      const wanted = Number(typeof first === 'object' ? (first as net.ListenOptions).port : first);
      const callback = given.findLast((each) => typeof each === 'function') as (() => void) | undefined;
      listen(this, wanted, callback);
      return this;
    };
  }

  #listen(server: net.Server, port: number, callback: (() => void) | undefined): void {
    const { world } = this;
    const { actor } = world;
    this.#ports.set(port, { server, actor });
    const free = () => {
      if (this.#ports.get(port)?.server === server) this.#ports.delete(port);
    };
    actor?.onKilled.add(free);
    // What `net.Server` asks of the handle that it has otherwise.
    Object.assign(server, {
      _handle: {
        close: (done?: () => void) => {
          free();
          if (done) queueMicrotask(done);
        },
        ref: () => {},
        unref: () => {},
        getsockname: (out: object) => void Object.assign(out, { address: '127.0.0.1', family: 'IPv4', port }),
      },
    });
    if (callback) server.once('listening', callback);
    world.schedule(0, () => server.emit('listening'), { actor });
  }

  /** Replaces `net.connect`. */
  connect = (options: net.TcpNetConnectOpts): net.Socket => {
    const { world } = this;
    const client = new VirtualSocket(this, world.actor);
    client.connecting = true;
    // Some libraries give it as a text.
    const port = Number(`${options.port}`);
    const target = this.#ports.get(port);
    const fate = this.#fates(world.actor, target?.actor);
    client.fate = fate;
    client.localPort = this.#nextPort++;
    client.remotePort = port;
    world.schedule(fate.delayMs, () => this.#arrive(client, port, fate), { actor: target?.actor });
    return client as unknown as net.Socket;
  };

  #arrive(client: VirtualSocket, port: number, fate: Fate): void {
    const { world } = this;
    const target = this.#ports.get(port);
    const isRefused = target === undefined || fate.isRefused === true;
    const answer = (run: () => void) => world.schedule(fate.delayMs, run, { actor: client.actor });
    if (isRefused) return void answer(() => client.destroy(connectionError('ECONNREFUSED')));
    if (client.destroyed) return;
    const { server } = target;
    const socket = new VirtualSocket(this, target.actor);
    Object.assign(socket, { fate, peer: client, localPort: port, remotePort: client.localPort, server });
    client.peer = socket;
    const counted = server as { _connections?: number };
    counted._connections = (counted._connections ?? 0) + 1;
    server.emit('connection', socket);
    answer(() => {
      client.connecting = false;
      if (client.destroyed) return;
      client.emit('connect');
      client.emit('ready');
    });
  }

  /** A server counts its connections, to know when it is closed. */
  left(server: net.Server): void {
    const counted = server as unknown as { _connections: number; _emitCloseIfDrained(): void };
    counted._connections -= 1;
    counted._emitCloseIfDrained();
  }
}
