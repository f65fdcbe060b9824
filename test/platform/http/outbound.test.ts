import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import { now } from '../../../src/platform/base/chance.ts';
import { createCheckedAddresses } from '../../../src/platform/http/checked-addresses.ts';
import { createOutboundHttp, type OutboundHttp, TooLate } from '../../../src/platform/http/outbound.ts';
import { createCertificates } from '../../support/certificates.ts';
import { standStill } from '../../support/late-answers.ts';

const opened = new AsyncDisposableStack();
after(() => opened.disposeAsync());

/** One port of every loopback address: one is allowed, the others stand for what lies inside. */
const allowed = '127.0.0.2';
const inside = '127.0.0.1';
let port: number;
let answer: RequestListener;
let received: IncomingMessage[] = [];

before(async () => {
  const server = createServer((request, response) => {
    received.push(request);
    answer(request, response);
  });
  port = await listen(server);
});
beforeEach(() => {
  received = [];
  answer = (_, response) => response.writeHead(204).end();
});

async function listen(server: Server): Promise<number> {
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  opened.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Names lead to each of these in turn, and to the last one from then on. */
function outbound(leadsTo: readonly string[][], timeoutMs = 10_000): OutboundHttp {
  let lookUps = 0;
  const addresses = createCheckedAddresses({
    privateNetworks: [`${allowed}/32`],
    httpToLoopback: true,
    resolve: async () => leadsTo[Math.min(lookUps++, leadsTo.length - 1)] ?? [],
  });
  // Any name may be spoken to in the clear, so that most tests need no certificate.
  const http = createOutboundHttp({ ...addresses, faultOfText: () => undefined }, timeoutMs);
  opened.defer(() => http.close());
  return http;
}

const post = (http: OutboundHttp, host: string, at = port, scheme = 'http') =>
  http.post({
    url: `${scheme}://${host}:${at}/hook?a=b`,
    headers: { 'user-agent': 'test' },
    body: 'text',
    deadline: now() + 60_000,
  });

describe('a request to an address that others have named', () => {
  test('brings its body and headers, and the name', async () => {
    let body = '';
    answer = (request, response) => {
      request.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      request.on('end', () => response.writeHead(202, { 'retry-after': '7' }).end());
    };
    const { status, retryAfter } = await post(outbound([[allowed]]), 'hooks.example');
    assert.deepEqual({ status, retryAfter, body }, { status: 202, retryAfter: '7', body: 'text' });
    assert.equal(received[0]?.url, '/hook?a=b');
    assert.equal(received[0]?.headers.host, `hooks.example:${port}`);
    assert.equal(received[0]?.socket.localAddress, allowed);
  });

  test('goes where the name led when it was checked, though it leads elsewhere a moment later', async () => {
    assert.equal((await post(outbound([[allowed], [inside]]), 'hooks.example')).status, 204);
    assert.deepEqual(
      received.map(({ socket }) => socket.localAddress),
      [allowed],
    );
  });

  test('is not sent where the name has come to lead inside', async () => {
    const http = outbound([[inside]]);
    await assert.rejects(post(http, 'hooks.example'), { name: 'OutboundFailure', kind: 'blocked_address' });
    await assert.rejects(post(outbound([[allowed, inside]]), 'hooks.example'), { kind: 'blocked_address' });
    assert.equal(received.length, 0);
  });

  test('is not sent to an address in any notation, which no system looks up', async () => {
    const http = outbound([[allowed]]);
    const hosts = [inside, '0x7f.1', '2130706433', '0177.0.0.1', '127.1', '127.0.0.1.', 'localhost'];
    for (const host of [...hosts, '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '0.0.0.0', '[::]']) {
      await assert.rejects(post(http, host), { kind: 'blocked_address' }, host);
    }
    assert.equal(received.length, 0);
    assert.equal((await post(http, '0x7f.2')).status, 204);
  });

  test('tries the other addresses of a name where one does not answer', async () => {
    const server = createServer((_, response) => response.end());
    server.listen(0, allowed);
    await once(server, 'listening');
    opened.defer(() => void server.close());
    const http = createOutboundHttp(
      {
        of: async () => ['127.0.0.3', allowed],
        faultOf: async () => undefined,
        faultOfText: () => undefined,
      },
      10_000,
    );
    opened.defer(() => http.close());
    const { status } = await post(http, 'hooks.example', (server.address() as AddressInfo).port);
    assert.equal(status, 200);
  });

  test('is not sent with a URL that breaks the rules', async () => {
    const rules = { privateNetworks: ['0.0.0.0/0'], httpToLoopback: false };
    const http = createOutboundHttp(createCheckedAddresses(rules), 10_000);
    opened.defer(() => http.close());
    await assert.rejects(post(http, inside), { kind: 'blocked_address' });
    assert.equal(received.length, 0);
  });

  test('follows no redirect', async () => {
    answer = (_, response) => response.writeHead(307, { location: `http://${inside}:${port}/` }).end();
    assert.equal((await post(outbound([[allowed]]), 'hooks.example')).status, 307);
    assert.equal(received.length, 1);
  });
});

describe('an answer', () => {
  test('without an end counts by its status, and is not read without bound', async () => {
    const closed = Promise.withResolvers<void>();
    answer = (_, response) => {
      response.on('close', closed.resolve).on('error', () => undefined);
      const more = () => response.destroyed || response.write(Buffer.alloc(16 * 1024), more);
      response.writeHead(200);
      more();
    };
    assert.equal((await post(outbound([[allowed]]), 'hooks.example')).status, 200);
    await closed.promise;
  });

  test('that stops in its middle counts by its status', async () => {
    answer = (_, response) => response.writeHead(200).write('begun');
    assert.equal((await post(outbound([[allowed]], 2000), 'hooks.example')).status, 200);
  });

  test('of a few bytes leaves the connection to the next request', async () => {
    answer = (_, response) => response.end('thanks');
    const http = outbound([[allowed], [inside]]);
    await post(http, 'hooks.example');
    // It is free one turn of the event loop later.
    await new Promise(setImmediate);
    await post(http, 'hooks.example');
    assert.equal(received[0]?.socket, received[1]?.socket);
  });
});

describe('a failure is reported as its kind alone', () => {
  test('dns', async () => {
    await assert.rejects(post(outbound([[]]), 'hooks.example'), { kind: 'dns', message: 'dns' });
  });

  test('connection', async () => {
    answer = (request) => void request.socket.destroy();
    await assert.rejects(post(outbound([[allowed]]), 'hooks.example'), { kind: 'connection' });
    await assert.rejects(post(outbound([['127.0.0.2']]), 'hooks.example', 1), { kind: 'connection' });
  });

  test('timeout', async () => {
    answer = () => undefined;
    await assert.rejects(post(outbound([[allowed]], 200), 'hooks.example'), { kind: 'timeout' });
  });

  test('is not sent after its deadline, nor where there is too little time for all of it', async () => {
    const to = (deadline: number) => ({
      url: `http://hooks.example:${port}/`,
      headers: {},
      body: '',
      deadline,
    });
    const http = outbound([[allowed]], 5000);
    await assert.rejects(http.post(to(now() + 4000)), TooLate);
    const sent = http.post(to(now() + 6000));
    standStill(6000);
    await assert.rejects(sent, TooLate);
    assert.deepEqual(received, []);
  });

  test('unless it is the caller who gives up', async () => {
    const abort = new AbortController();
    answer = () => abort.abort(new Error('stopping'));
    const url = `http://hooks.example:${port}/`;
    const sent = outbound([[allowed]]).post({
      url,
      headers: {},
      deadline: now() + 60_000,
      body: '',
      signal: abort.signal,
    });
    await assert.rejects(sent, { message: 'stopping' });
  });

  test('tls, with the certificate checked for the name and not for the address', async () => {
    const certificates = await createCertificates();
    opened.defer(() => certificates.remove());
    const authority = await certificates.authority('authority');
    const { cert, key } = await certificates.issue('server', authority);
    const names: string[] = [];
    const SNICallback = (name: string, go: (error: null) => void) => {
      names.push(name);
      go(null);
    };
    const server = createTlsServer({ cert, key, SNICallback }, (_, response) => response.end());
    const at = await listen(server);
    const http = outbound([['127.0.0.2']]);
    await assert.rejects(post(http, 'hooks.example', at, 'https'), { kind: 'tls' });
    const usual = tls.getCACertificates();
    tls.setDefaultCACertificates([...usual, authority.cert]);
    opened.defer(() => tls.setDefaultCACertificates(usual));
    const trusting = outbound([['127.0.0.2']]);
    // It is for 127.0.0.1 only.
    await assert.rejects(post(trusting, 'hooks.example', at, 'https'), { kind: 'tls' });
    await assert.rejects(post(trusting, '127.0.0.2', at, 'https'), { kind: 'tls' });
    const rules = createCheckedAddresses({ privateNetworks: ['127.0.0.1/32'], httpToLoopback: false });
    const strict = createOutboundHttp(rules, 10_000);
    opened.defer(() => strict.close());
    assert.equal((await post(strict, '127.0.0.1', at, 'https')).status, 200);
    assert.deepEqual(names, ['hooks.example', 'hooks.example']);
  });
});
