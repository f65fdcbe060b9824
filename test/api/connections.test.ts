import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { Type } from 'typebox';
import { defineRoute, json } from '../../src/api/route.ts';
import type { ServerOptions } from '../../src/api/server.ts';
import { answerLimits, markShared } from '../../src/platform/http/connections.ts';
import { type Certificates, createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { connectRaw } from '../support/raw-client.ts';
import {
  endedConnections,
  type MadeUpServer,
  openRoute,
  startMadeUpServer,
  startMadeUpServerWith,
  startSecureMadeUpServer,
} from './made-up-server.ts';

/** Answers with what it was sent, a turn or more later, and counts how many of its requests are under way at once. */
function echoRoutes() {
  let underWay = 0;
  const counts = { most: 0 };
  const echo = async (n: number) => {
    underWay += 1;
    counts.most = Math.max(counts.most, underWay);
    for (let turn = 0; turn < n % 3; turn++) await nextTurn();
    underWay -= 1;
    return json(200, { n });
  };
  const params = Type.Object({ n: Type.String() });
  const body = Type.Object({ n: Type.Integer() });
  return {
    counts,
    routes: [
      defineRoute({
        ...openRoute,
        path: '/echo/:n',
        operationId: 'echo',
        request: { params },
        handle: ({ params: { n } }) => echo(Number(n)),
      }),
      defineRoute({
        ...openRoute,
        method: 'POST',
        path: '/echo',
        operationId: 'echoBody',
        request: { body },
        handle: ({ body: { n } }) => echo(n),
      }),
    ],
  };
}

const largeBytes = Buffer.alloc(40 * 1024 * 1024, 'x');

/** More than the kernel takes for a client that reads nothing. */
const largeRoute = defineRoute({
  ...openRoute,
  path: '/large',
  operationId: 'large',
  handle: async () => ({ status: 200, body: largeBytes, headers: { 'content-type': 'text/plain' } }),
});

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`;
const numberOf = (body: Buffer | undefined) => (JSON.parse(String(body)) as { n: number }).n;

let certificates: Certificates;

before(async () => {
  certificates = await createCertificates();
});
after(() => certificates.remove());

const startSecureServer = (options: Partial<ServerOptions>) => startSecureMadeUpServer(certificates, options);
const servers = [
  ['HTTP', startMadeUpServerWith],
  ['HTTPS', startSecureServer],
] as const;

describe('a client that sends requests before it has answers', () => {
  const { counts, routes } = echoRoutes();
  let plain: MadeUpServer;
  let secure: MadeUpServer;

  before(async () => {
    plain = await startMadeUpServer(...routes);
    secure = await startSecureServer({ routes });
  });
  after(async () => {
    await plain.stop();
    await secure.stop();
  });

  for (const [how, openClient] of [
    ['HTTP', () => connectRaw(plain.url)],
    ['HTTPS', () => connectRaw(secure.url)],
  ] as const) {
    test(`gets all of them, in order, and one is under way at a time, over ${how}`, async () => {
      const client = await openClient();
      counts.most = 0;
      const numbers = Array.from({ length: 3000 }, (_, n) => n);
      client.write(numbers.map((n) => get(`/echo/${n}`)).join(''));
      for (const n of numbers) assert.equal(numberOf((await client.answer())?.body), n);
      assert.equal(counts.most, 1);
      client.socket.destroy();
    });
  }

  /** A body with ends of heads in it, which JSON takes for white space. */
  const bodyOf = (n: number) => `{\r\n\r\n"n":${n}\r\n\r\n}`;
  const head = 'POST /echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n';
  const kinds: ((n: number) => string)[] = [
    (n) => get(`/echo/${n}`),
    (n) => `\r\n${get(`/echo/${n}`)}`,
    (n) => `${head}content-length: ${bodyOf(n).length}\r\n\r\n${bodyOf(n)}`,
    (n) => `${head}transfer-encoding: chunked\r\n\r\n${chunk(bodyOf(n))}${chunk(' \r\n\r\n')}0\r\n\r\n`,
    (n) => `${head}transfer-encoding: chunked\r\n\r\n${chunk(bodyOf(n))}0\r\ntrailer: x\r\n\r\n`,
    (n) =>
      `${head}transfer-encoding: Chunked\r\n\r\n0A;x="0"\r\n{ \r\n\r\n"n":\r\n${chunk(`${n}\r\n}`)}000;y\r\n\r\n`,
  ];

  test('gets them wherever the network cuts what it sends', async () => {
    const requests = fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 12 });
    const cuts = fc.array(fc.nat({ max: 1500 }), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(requests, cuts, async (kindsSent, cutAt) => {
        const client = await connectRaw(plain.url);
        counts.most = 0;
        const text = kindsSent.map((kind, n) => kind(n)).join('');
        const ends = [...cutAt, text.length].sort((a, b) => a - b);
        const sending = async () => {
          let from = 0;
          for (const to of ends) {
            client.write(text.slice(from, to));
            await nextTurn();
            from = Math.max(from, to);
          }
        };
        const sent = sending();
        for (const n of kindsSent.keys()) assert.equal(numberOf((await client.answer())?.body), n);
        await sent;
        assert.equal(counts.most, 1);
        client.socket.destroy();
      }),
      { numRuns: 60 },
    );
  });

  test('gets the answers to what came before a fault, and then the fault', async () => {
    const client = await connectRaw(plain.url);
    client.write(`${get('/echo/1')}${get('/echo/2')}nonsense\r\n\r\n${get('/echo/3')}`);
    assert.equal(numberOf((await client.answer())?.body), 1);
    assert.equal(numberOf((await client.answer())?.body), 2);
    assert.equal((await client.answer())?.status, 400);
    assert.equal(await client.answer(), undefined);
  });

  test('gets an answer to each request without a Host, and the others after it', async () => {
    const client = await connectRaw(plain.url);
    client.write('GET /echo/1 HTTP/1.1\r\n\r\n'.repeat(500) + get('/echo/1'));
    for (let n = 0; n < 500; n++) assert.equal((await client.answer())?.status, 400);
    assert.equal(numberOf((await client.answer())?.body), 1);
    client.socket.destroy();
  });

  test('gets 100 Continue where it asks for that before it sends a body', async () => {
    const client = await connectRaw(plain.url);
    const body = bodyOf(7);
    client.write(`${get('/echo/5')}${head}expect: 100-continue\r\ncontent-length: ${body.length}\r\n\r\n`);
    assert.equal(numberOf((await client.answer())?.body), 5);
    assert.equal((await client.answer())?.status, 100);
    client.write(body);
    assert.equal(numberOf((await client.answer())?.body), 7);
    client.socket.destroy();
  });
});

for (const [how, startServer] of servers) {
  describe(`a client that does not read, over ${how}`, () => {
    let server: MadeUpServer;

    before(async () => {
      server = await startServer({
        connections: { ...answerLimits, max: 100, unreadMs: 1500 },
        routes: [largeRoute],
      });
    });
    after(() => server.stop());

    const cutOff = async () => (await endedConnections(server, 'unread')) ?? 0;

    test('is cut off, and so is each of many; its request ends as one whose caller has hung up', async () => {
      const clients = await Promise.all(Array.from({ length: 20 }, () => connectRaw(server.url)));
      for (const { socket } of clients) socket.pause().write(get('/large').repeat(100));
      const linesNow = () => server.logLines.filter(({ message }) => message === 'request');
      await eventually(async () => {
        assert.ok((await cutOff()) >= clients.length);
        assert.ok(linesNow().length >= clients.length);
      });
      const lines = linesNow();
      assert.equal(lines.length, clients.length);
      for (const { facts } of lines) assert.equal(facts['hung_up'], true);
      assert.match(await server.metrics(), /^http_server_active_requests 0$/m);
      for (const { socket } of clients) socket.destroy();
    });

    test('is served as long as it goes on reading, however long that takes', async () => {
      const before = await cutOff();
      const { socket } = await connectRaw(server.url);
      socket.pause().write(get('/large'));
      let read = 0;
      const startedAt = performance.now();
      while (read < largeBytes.length) {
        const chunk = socket.read() as Buffer | null;
        read += chunk?.length ?? 0;
        if (chunk === null) await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
        assert.ok(!socket.closed, `closed after ${read} bytes`);
        // About 10 MB a second, whatever a read brings.
        await sleep(Math.max(0, read / 10_000 - (performance.now() - startedAt)));
      }
      assert.equal(await cutOff(), before);
      socket.destroy();
    });
  });
}

for (const [how, startServer] of servers) {
  describe(`more answers than may wait for clients, over ${how}`, () => {
    const staticBytes = Buffer.from(largeBytes);
    const staticRoute = {
      ...largeRoute,
      path: '/static',
      operationId: 'static',
      handle: async () => ({ status: 200, body: staticBytes, headers: { 'content-type': 'text/plain' } }),
    };
    let server: MadeUpServer;

    before(async () => {
      markShared(staticBytes);
      const connections = { ...answerLimits, max: 100, unsentBytes: 100 * 1024 * 1024 };
      server = await startServer({ connections, routes: [largeRoute, staticRoute] });
    });
    after(() => server.stop());

    /** Asks, and reads no more than the beginning of the answer. */
    async function ask(path: string, from?: string): Promise<Socket> {
      const { socket, write } = await connectRaw(server.url, from);
      write(get(path));
      await once(socket.pause(), 'readable');
      return socket;
    }

    test('end the one without progress for longest, of the caller with the most, and no other', async () => {
      const first = await ask('/large');
      const [second, third] = [await ask('/large', '127.0.0.2'), await ask('/large', '127.0.0.2')];
      if (!second.closed) await once(second.resume(), 'close');
      const reading = await connectRaw(server.url, '127.0.0.3');
      for (let n = 0; n < 3; n++) {
        reading.write(get('/large'));
        assert.equal((await reading.answer())?.body.length, largeBytes.length);
      }
      for (const socket of [first, third, reading.socket]) {
        assert.equal(socket.closed, false);
        socket.destroy();
      }
    });

    test('are not those that all share one body', async () => {
      const sockets = await Promise.all(Array.from({ length: 8 }, () => ask('/static')));
      const reading = await connectRaw(server.url);
      reading.write(get('/static'));
      assert.equal((await reading.answer())?.body.length, staticBytes.length);
      for (const socket of [...sockets, reading.socket]) {
        assert.equal(socket.closed, false);
        socket.destroy();
      }
    });
  });

  describe(`the end of a connection, over ${how}`, () => {
    /** No more than the kernel takes for a client that does not read yet. */
    const bytes = largeBytes.subarray(0, 200_000);
    const route = { ...largeRoute, handle: async () => ({ status: 200, body: bytes }) };

    for (const [when, header, isStopping] of [
      ['its client asks for it', 'connection: close\r\n', false],
      ['a stop has begun', '', true],
    ] as const) {
      test(`comes after the whole answer, whatever else was sent, where ${when}`, async () => {
        const server = await startServer({ routes: [route], isStopping: () => isStopping });
        for (let n = 0; n < 5; n++) {
          const client = await connectRaw(server.url);
          // More than one read brings: the rest waits in the socket.
          client.write(`GET /large HTTP/1.1\r\nhost: a\r\n${header}\r\n${get('/large').repeat(6000)}`);
          // The service is through with it before the client reads.
          await eventually(() => assert.ok(requestsOf(server) > n), { everyMs: 5 });
          await sleep(20);
          const answer = await client.answer();
          assert.equal(answer?.body.length, bytes.length);
          assert.equal(answer.headers['connection'], 'close');
          assert.equal(await client.answer(), undefined);
        }
        await server.stop();
      });
    }

    test('comes at once where the service stops before a head is complete', async () => {
      const server = await startServer({ routes: [route] });
      const first = await connectRaw(server.url);
      first.write('GET /large HTTP/1.1\r\nhost:');
      const second = await connectRaw(server.url);
      second.write(`${get('/nothing')}GET /large HTTP/1.1\r\nhost:`);
      assert.equal((await second.answer())?.status, 404);
      const startedAt = performance.now();
      await server.stop();
      // Else it would take until the head's time is up (15 s), or for ever.
      assert.ok(performance.now() - startedAt < 10_000);
      assert.equal(await first.answer(), undefined);
      assert.equal(await second.answer(), undefined);
    });
  });
}

test('a stop ends a connection on which requests wait, after the answer that is under way', async () => {
  const gateway = await startGateway();
  const client = await connectRaw(gateway.url);
  client.write(get('/v1/docs').repeat(2000));
  assert.equal((await client.answer())?.status, 200);
  const stopped = gateway.stop();
  let last = await client.answer();
  for (let next = last; next !== undefined; next = await client.answer()) last = next;
  assert.equal(last?.headers['connection'], 'close');
  await stopped;
});

function requestsOf({ logLines }: MadeUpServer): number {
  return logLines.filter(({ message }) => message === 'request').length;
}

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}
