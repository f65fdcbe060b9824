import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { Problem } from '../../base/problem.ts';
import { problemAnswer } from './problem-answer.ts';

/**
 * Answers what was no HTTP request, or never became a whole one, before the connection is closed: there is no
 * request object yet, so the answer is written to the socket itself.
 */
export function answerSocketError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, detail } = describe(error.code);
  const requestId = randomUUID();
  const { headers, body } = problemAnswer(new Problem('invalid_request', detail), requestId, false);
  const text = body.replace('"status":400', `"status":${status}`);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n` +
      `content-type: ${headers['content-type']}\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\n` +
      `x-request-id: ${requestId}\r\n` +
      `connection: close\r\n\r\n${text}`,
  );
}

function describe(code: string | undefined): { status: number; detail: string } {
  if (code === 'HPE_HEADER_OVERFLOW')
    return { status: 431, detail: 'The request line and headers are too large.' };
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return { status: 408, detail: 'The request did not arrive in time.' };
  return { status: 400, detail: 'This is not a valid HTTP request.' };
}
