import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { Problem } from '../../platform/base/problem.ts';

const expression = /^(?:\w[\w.-]{0,254}|\[([\da-f:.]+)\])(?::(\d{1,5}))?$/i;

/** Refuses other versions of HTTP, and requests without exactly one right Host header (RFC 9112 section 3.2). */
export function requireHost({ raw }: FastifyRequest): void {
  const { httpVersionMajor: major, httpVersion, headers } = raw;
  if (major !== 1)
    throw new Problem('invalid_request', `HTTP/${httpVersion} is not supported here. Use HTTP/1.1.`);
  const { host } = headers;
  if (host === undefined) {
    if (httpVersion === '1.1') refuse('is missing');
  } else if (isSentTwice(raw)) refuse('must be sent once');
  else if (!isHost(host)) refuse('must be a host name or address, with an optional port');
}

function isSentTwice({ rawHeaders }: IncomingMessage): boolean {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count > 1;
}

function isHost(text: string): boolean {
  const [found, ipv6, port = '0'] = expression.exec(text) ?? [];
  return found !== undefined && (ipv6 === undefined || isIPv6(ipv6)) && Number(port) < 65_536;
}

function refuse(message: string): never {
  throw new Problem('invalid_request', `The Host header ${message}.`, {
    errors: [{ header: 'Host', message }],
  });
}
