import type { Socket } from 'node:net';

/** Names the origin whose limit an address shares; undefined for one that stands for many clients. */
export type OriginOf = (address: string) => string | undefined;

class Origin {
  readonly name: string | undefined;
  open = 0;
  readonly idle = new Set<OpenConnection>();

  constructor(name: string | undefined) {
    this.name = name;
  }

  get weight(): number {
    return this.name === undefined ? 1 : this.open;
  }
}

export class OpenConnection {
  readonly socket: Socket;
  readonly #all: OpenConnections;
  readonly #origin: Origin;
  #isClosed = false;

  constructor(socket: Socket, all: OpenConnections, origin: Origin) {
    this.socket = socket;
    this.#all = all;
    this.#origin = origin;
  }

  markBusy(): void {
    this.#all.noteBusy(this.#origin, this);
  }

  markIdle(): void {
    if (!this.#isClosed) this.#all.noteIdle(this.#origin, this);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.markBusy();
    this.#all.remove(this.#origin);
  }
}

/**
 * The open connections, at most `max`. At the limit a new one replaces an idle one (without a request in progress): the one
 * that has been idle longest, of the address that holds most. An address with fewer connections than the new one's loses none.
 * Finding it takes the same time for any number of addresses, since anybody can open connections.
 */
export class OpenConnections {
  readonly #max: number;
  readonly #originOf: OriginOf;
  readonly #origins = new Map<string | undefined, Origin>();
  readonly #byWeight = new Map<number, Set<Origin>>();
  #open = 0;

  constructor(max: number, originOf: OriginOf) {
    this.#max = max;
    this.#originOf = originOf;
  }

  /** Adds a new connection; undefined where it must be refused. `replace` is called with the idle one that it replaces. */
  add(socket: Socket, replace: (idle: Socket) => void): OpenConnection | undefined {
    const name = this.#originOf(socket.remoteAddress ?? '');
    const origin = this.#origins.get(name) ?? new Origin(name);
    this.#count(origin, 1);
    const heaviest = this.#open < this.#max ? undefined : this.#heaviest(origin.weight);
    const [idle] = heaviest?.idle ?? [];
    if (this.#open >= this.#max && idle === undefined) {
      this.#count(origin, -1);
      return undefined;
    }
    this.#open += 1;
    this.#origins.set(name, origin);
    const connection = new OpenConnection(socket, this, origin);
    connection.markIdle();
    if (heaviest !== undefined && idle !== undefined) {
      idle.close();
      this.#relist(heaviest);
      replace(idle.socket);
    }
    return connection;
  }

  remove(origin: Origin): void {
    this.#open -= 1;
    this.#count(origin, -1);
    if (origin.open === 0) this.#origins.delete(origin.name);
  }

  noteIdle(origin: Origin, connection: OpenConnection): void {
    if (origin.idle.size === 0) this.#list(origin);
    origin.idle.add(connection);
  }

  noteBusy(origin: Origin, connection: OpenConnection): void {
    if (origin.idle.delete(connection) && origin.idle.size === 0) this.#unlist(origin);
  }

  /** The address with idle connections that holds most, where that is `least` or more. There are few different weights. */
  #heaviest(least: number): Origin | undefined {
    const most = Math.max(...this.#byWeight.keys());
    const [heaviest] = most < least ? [] : (this.#byWeight.get(most) ?? []);
    return heaviest;
  }

  #count(origin: Origin, change: number): void {
    const isListed = origin.idle.size > 0 && origin.name !== undefined;
    if (isListed) this.#unlist(origin);
    origin.open += change;
    if (isListed) this.#list(origin);
  }

  #relist(origin: Origin): void {
    if (origin.idle.size === 0) return;
    this.#unlist(origin);
    this.#list(origin);
  }

  #list(origin: Origin): void {
    const listed = this.#byWeight.get(origin.weight) ?? new Set();
    this.#byWeight.set(origin.weight, listed.add(origin));
  }

  #unlist(origin: Origin): void {
    const listed = this.#byWeight.get(origin.weight);
    listed?.delete(origin);
    if (listed?.size === 0) this.#byWeight.delete(origin.weight);
  }
}
