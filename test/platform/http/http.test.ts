import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import { after, before, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createHttp, type Http } from '../../../src/platform/http/http.ts';
import { standStill } from '../../support/late-answers.ts';

let server: Server;
let http: Http;
let url: string;
let answer: RequestListener;

before(async () => {
  server = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  http = createHttp(longMs);
});
after(async () => {
  server.closeAllConnections();
  server.close();
  await http.close();
});

/** Where nothing is to be late: to unpack 64 MiB takes seconds on a busy machine. */
const longMs = 60_000;
const get = (timeoutMs = longMs) => http.exchange({ url, method: 'GET', headers: {}, timeoutMs });

it('asks for gzip and unpacks it', async () => {
  answer = (request, response) => {
    const text = `accepts ${request.headers['accept-encoding']}`;
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(text));
  };
  assert.equal((await get()).body, 'accepts gzip');
});

it('does not follow a redirect', async () => {
  answer = (_, response) => response.writeHead(302, { location: '/elsewhere' }).end();
  assert.equal((await get()).status, 302);
});

it('unpacks much out of little', async () => {
  const text = 'a'.repeat(2 * 1024 * 1024);
  answer = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(text));
  assert.equal((await get()).body, text);
});

it('does not unpack without bound', async () => {
  const bomb = gzipSync(Buffer.alloc(65 * 1024 * 1024));
  answer = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb);
  await assert.rejects(get(), { name: 'HttpFailure', kind: 'unreadable' });
});

it('does not read without bound', async () => {
  answer = (_, response) => {
    response.on('error', () => {});
    response.writeHead(200).end(Buffer.alloc(65 * 1024 * 1024));
  };
  await assert.rejects(get(), { kind: 'unreadable', message: /more than 67108864 bytes/ });
});

it('takes broken gzip for no answer', async () => {
  answer = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('not packed');
  await assert.rejects(get(), { name: 'HttpFailure', kind: 'unreadable' });
});

it('distinguishes a lost connection from one that never was', async () => {
  answer = (request) => request.socket.destroy();
  await assert.rejects(get(), { kind: 'lost' });
  answer = (_, response) => {
    response.writeHead(200, { 'content-length': '10' }).write('half');
    setImmediate(() => response.destroy());
  };
  await assert.rejects(get(), { kind: 'lost' });
  const nobody = { url: 'http://127.0.0.1:9', method: 'GET', headers: {}, timeoutMs: longMs } as const;
  await assert.rejects(http.exchange(nobody), { kind: 'unreachable', message: 'ECONNREFUSED' });
});

it('counts the time for the head and the body together', async () => {
  answer = (_, response) => {
    response.writeHead(200);
    const drip = setInterval(() => response.write('.'), 20);
    response.on('close', () => clearInterval(drip));
  };
  await assert.rejects(get(150), { kind: 'timeout' });
});

it('sends nothing where the process stands still until its time is over, and is connected then', async () => {
  let requests = 0;
  answer = (_, response) => {
    requests += 1;
    response.writeHead(200).end();
  };
  const fresh = createHttp(longMs);
  const sent = fresh.exchange({ url, method: 'POST', headers: {}, body: 'text', timeoutMs: longMs });
  standStill(longMs);
  await assert.rejects(sent, { name: 'HttpFailure', kind: 'unreachable' });
  assert.equal((await fresh.exchange({ url, method: 'GET', headers: {}, timeoutMs: longMs })).status, 200);
  assert.equal(requests, 1);
  await fresh.close();
});
