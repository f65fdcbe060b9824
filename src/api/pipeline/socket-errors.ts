import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { randomUUID } from '../../platform/base/chance.ts';
import { normaliseAddress } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Connections, Exchange } from '../connections/lingering-close.ts';
import { problemAnswer } from './problem-answer.ts';
import { countPublic, type Limits } from './rate-limit.ts';
import { failReading, tooSlow } from './read-bytes.ts';

type SocketError = Error & { code?: string };

interface Observers {
  limits: Pick<Limits, 'unauthenticated'>;
  log: Log;
}

/**
 * Handles a connection with input that is no HTTP, or without input in time. A request whose body is at fault is answered as
 * any other. Without a request, the answer is written to the socket itself, after the answers to the requests before it; it is
 * counted by its address and logged as a request is. The connection is closed in every case.
 */
export function answerSocketErrors(connections: Connections, observers: Observers) {
  const failed = new WeakSet<Socket>();
  return (error: SocketError, socket: Socket): void => {
    if (error.code === 'ECONNRESET') return void socket.destroy();
    // Input after the first fault, or after the last answer, is ignored.
    if (failed.has(socket) || !socket.writable) return;
    failed.add(socket);
    const latest = connections.latest(socket);
    const end = () => refuse(error, socket, connections, observers);
    if (latest !== undefined && !latest.request.complete) endBody(error, latest, connections);
    else if (latest === undefined || latest.response.destroyed) end();
    else latest.response.once('close', end);
  };
}

function endBody(error: SocketError, { request, response }: Exchange, connections: Connections): void {
  const { socket } = request;
  // The client has ended its side: it has hung up.
  if (error.code === 'HPE_INVALID_EOF_STATE') return void socket.destroy();
  if (failReading(request, describe(error))) return;
  // It was or will be answered without its body.
  if (response.destroyed) connections.endSlowly(socket);
  else response.once('close', () => connections.endSlowly(socket));
}

function refuse(error: SocketError, socket: Socket, connections: Connections, observers: Observers): void {
  // Without a byte there was no request: a connection that was opened ahead of need.
  if (socket.bytesRead > 0) answer(describe(error), socket, observers);
  connections.endSlowly(socket);
}

function answer(fault: Problem, socket: Socket, { limits, log }: Observers): void {
  const address = normaliseAddress(socket.remoteAddress ?? '');
  const ofLimit = new Headers();
  const header = (name: string, value: string) => ofLimit.set(name, value);
  const problem = countPublic(limits, address, { header }) ?? fault;
  const { status } = problem;
  const requestId = randomUUID();
  const { headers, body } = problemAnswer(problem, requestId, false);
  const lines = [...Object.entries(headers), ...ofLimit].map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}` +
      `content-length: ${Buffer.byteLength(body)}\r\n` +
      `x-request-id: ${requestId}\r\n` +
      'x-content-type-options: nosniff\r\ncache-control: no-store\r\n' +
      `connection: close\r\n\r\n${body}`,
  );
  log.info({ request_id: requestId, endpoint: 'none', address, status }, 'request');
}

function describe({ code }: SocketError): Problem {
  if (code === 'HPE_HEADER_OVERFLOW') return headTooLarge();
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooSlow();
  return new Problem('invalid_request', 'This is not a valid HTTP request.');
}

export function headTooLarge(): Problem {
  return new Problem('invalid_request', 'The request line and headers are too large.', { status: 431 });
}
