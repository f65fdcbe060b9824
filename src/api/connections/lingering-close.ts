import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clearTimeout, setTimeout, sleep } from '../../platform/base/chance.ts';
import { trackedResponses } from '../../platform/http/connections.ts';

/** How long a connection that was ended is still read, and how much: enough for a client to see the answer. */
const lingerMs = 5000;
const lingerBytes = 16 * 1_048_576;
/** Milliseconds for a connection that is ended during the stop, which waits for it. */
const lingerMsOfStop = 1000;

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
}

export function followConnections(server: Server, event: 'connection' | 'secureConnection') {
  const open = new Set<Socket>();
  const exchanges = new Map<Socket, Exchange>();
  const ending = new Set<Socket>();
  let isStopping = false;
  const expecting = new WeakMap<IncomingMessage, ServerResponse>();
  const endSlowly = (socket: Socket) => {
    if (!ending.has(socket)) dropInput(socket, ending, isStopping ? lingerMsOfStop : lingerMs);
  };
  server.on(event, (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      exchanges.delete(socket);
    });
    // So Node closes a connection after the last answer on it; the client may have sent more.
    socket.destroySoon = () => endSlowly(socket);
  });
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    exchanges.set(request.socket, { request, response });
  });
  // Node would ask for every body, also for one that is refused unread.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    expecting.set(request, response);
    server.emit('request', request, response);
  });
  // Unknown expectations may be ignored (RFC 9110 section 10.1.1).
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    server.emit('request', request, response);
  });
  // Nothing is tunnelled: it is answered as any other method. Node would close the connection without a word.
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    // Its parser is given to another connection.
    socket.removeAllListeners('data');
    const response = new trackedResponses.ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => {
      response.detachSocket(socket);
      endSlowly(socket);
      response.emit('close');
    });
    server.emit('request', request, response);
  });
  return {
    latest: (socket: Socket): Exchange | undefined => exchanges.get(socket),
    askForBody: (request: IncomingMessage): void => expecting.get(request)?.writeContinue(),
    /**
     * Ends a connection with input that will not be used. Closing it at once would make the kernel reset it, and a client
     * that still sends would lose the answer. So the input is read and dropped, up to a bound.
     */
    endSlowly,
    /**
     * Waits a second at most for connections that are being ended slowly. Then closes those on which no request is in
     * progress: nothing was ever asked, part of a head has come, or only the rest of an answered request is awaited.
     */
    stop: async (): Promise<void> => {
      isStopping = true;
      const closed = Promise.all(
        [...ending].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
      );
      await Promise.race([closed, sleep(lingerMsOfStop, { ref: false })]);
      for (const socket of open) {
        const isInProgress = exchanges.get(socket)?.response.writableFinished === false;
        if (!isInProgress) socket.destroy();
      }
    },
  };
}

export type Connections = ReturnType<typeof followConnections>;

function dropInput(socket: Socket, ending: Set<Socket>, forMs: number): void {
  ending.add(socket);
  let left = lingerBytes;
  const timeout = setTimeout(() => socket.destroy(), forMs).unref();
  socket.once('close', () => {
    clearTimeout(timeout);
    ending.delete(socket);
  });
  // Past the HTTP parser.
  socket.removeAllListeners('data');
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) socket.destroy();
  });
  socket.resume();
  socket.end();
}
