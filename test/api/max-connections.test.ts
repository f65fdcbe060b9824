import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import { defineRoute, json } from '../../src/api/route.ts';
import type { ServerOptions } from '../../src/api/server.ts';
import { answerLimits } from '../../src/platform/http/connections.ts';
import { type Certificates, createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { connectRaw, type RawClient } from '../support/raw-client.ts';
import {
  endedConnections,
  type MadeUpServer,
  openRoute,
  startMadeUpServerWith,
  startSecureMadeUpServer,
} from './made-up-server.ts';

const max = 6;
const [here, there, elsewhere] = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];
const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`;

/** A route that answers at once, and one whose answer the test releases. */
function createRoutes() {
  let begun = 0;
  const answered = Promise.withResolvers<void>();
  const now = defineRoute({
    ...openRoute,
    path: '/now',
    operationId: 'now',
    handle: async () => json(200, {}),
  });
  const later = defineRoute({
    ...openRoute,
    path: '/later',
    operationId: 'later',
    async handle() {
      begun += 1;
      await answered.promise;
      return json(200, {});
    },
  });
  return { routes: [now, later], begun: () => begun, answer: () => answered.resolve() };
}

let certificates: Certificates;
before(async () => {
  certificates = await createCertificates();
});
after(() => certificates.remove());

for (const [how, startServer] of [
  ['HTTP', startMadeUpServerWith],
  ['HTTPS', (options: Partial<ServerOptions>) => startSecureMadeUpServer(certificates, options)],
] as const) {
  describe(`as many connections as allowed, over ${how}`, () => {
    let server: MadeUpServer;
    let held: ReturnType<typeof createRoutes>;
    let sockets: Socket[] = [];

    const start = async (trustProxies: string[] = []) => {
      held = createRoutes();
      const connections = { ...answerLimits, max };
      server = await startServer({ routes: held.routes, connections, trustProxies });
    };
    afterEach(async () => {
      for (const socket of sockets) socket.destroy();
      sockets = [];
      held.answer();
      await server.stop();
    });

    const open = async (from?: string): Promise<RawClient> => {
      const client = await connectRaw(server.url, from);
      sockets.push(client.socket);
      return client;
    };
    const isServed = async (client: RawClient) => {
      client.write(get('/now'));
      return (await client.answer())?.status === 200;
    };
    const openIdle = async (from?: string) => {
      const client = await open(from);
      assert.ok(await isServed(client));
      return client;
    };
    /** A client whose request is in progress. */
    const openBusy = async (from?: string) => {
      const client = await open(from);
      const before = held.begun();
      client.write(get('/later'));
      await eventually(() => assert.notEqual(held.begun(), before), { everyMs: 5 });
      return client;
    };
    /** Opens one after the other. */
    const openAll = async (...froms: string[]) => {
      const clients = [];
      for (const from of froms) clients.push(await openIdle(from));
      return clients;
    };
    /** Which of them are closed; those that are not serve. */
    const closedOf = async (clients: RawClient[]) => {
      const served: boolean[] = [];
      for (const client of clients) served.push(await isServed(client));
      return [...served.keys()].filter((index) => !served[index]);
    };

    test('a new one replaces the one that has been idle longest; it is counted, and logged once', async () => {
      await start();
      const clients = await openAll(here, here, here, here, here, here);
      assert.ok(await isServed(clients[0] as RawClient));
      clients.push(await openIdle(here), await openIdle(here));
      assert.deepEqual(await closedOf(clients), [1, 2]);
      assert.equal(await endedConnections(server, 'idle'), 2);
      assert.equal(await endedConnections(server, 'limit'), 0);
      const lines = server.logLines.filter(
        ({ message }) => message === 'the limit of connections is reached',
      );
      assert.deepEqual(
        lines.map(({ facts }) => facts),
        [{ refused: 0, closed_idle: 1, max_connections: max }],
      );
    });

    test('part of a head is no request in progress', async () => {
      await start();
      const slow = await open();
      slow.write('GET /now HTTP/1.1\r\nhost');
      const clients = await openAll(here, here, here, here, here);
      slow.write(':');
      await openIdle();
      await slow.closed;
      assert.deepEqual(await closedOf(clients), []);
    });

    test('none with a request in progress is closed; where all have one, a new one is', async () => {
      await start();
      const working = await Promise.all(Array.from({ length: max - 1 }, () => openBusy()));
      const resting = await openIdle();
      const next = await openBusy();
      await resting.closed;
      const refused = await connectRaw(server.url).catch(() => undefined);
      await refused?.closed;
      assert.equal(await endedConnections(server, 'limit'), 1);
      held.answer();
      for (const client of [...working, next]) assert.equal((await client.answer())?.status, 200);
      // They are idle now.
      await openIdle();
      assert.equal((await closedOf([...working, next])).length, 1);
    });

    test('the address that holds most loses one, whichever has been idle longer', async () => {
      await start();
      const clients = await openAll(there, there, here, here, here, here);
      const next = await openAll(elsewhere, elsewhere);
      assert.deepEqual(await closedOf(clients), [2, 3]);
      assert.deepEqual(await closedOf(next), []);
    });

    test('an address that holds most, all with requests in progress, replaces none of others', async () => {
      await start();
      for (let n = 0; n < max - 1; n++) await openBusy(here);
      const other = await openIdle(there);
      const refused = await connectRaw(server.url, here).catch(() => undefined);
      await refused?.closed;
      assert.deepEqual(await closedOf([other]), []);
      await openIdle(elsewhere);
      await other.closed;
    });

    test('each connection of a trusted proxy counts as one of an address of its own', async () => {
      await start([here]);
      const clients = await openAll(here, here, here, here, there, there);
      await openIdle(elsewhere);
      assert.deepEqual(await closedOf(clients.slice(4)), [0]);
      // Now no address holds more than another.
      await openIdle(here);
      assert.deepEqual(await closedOf(clients.slice(0, 4)), [0]);
    });
  });
}

test('a connection whose TLS handshake is not complete counts as idle', async () => {
  const { routes } = createRoutes();
  const server = await startSecureMadeUpServer(certificates, {
    routes,
    connections: { ...answerLimits, max },
  });
  const { hostname, port } = new URL(server.url);
  const silent = await Promise.all(
    Array.from({ length: max }, async () => {
      const socket = connect(Number(port), hostname).on('error', () => {});
      await once(socket, 'connect');
      return socket;
    }),
  );
  for (let n = 0; n < max; n++) {
    const client = await connectRaw(server.url);
    client.write(get('/now'));
    assert.equal((await client.answer())?.status, 200);
  }
  for (const socket of silent) if (!socket.closed) await once(socket.resume(), 'close');
  await server.stop();
});

test('keep-alive connections with occasional requests keep no client out, and their clients can reconnect', async () => {
  const gateway = await startGateway({ MAX_CONNECTIONS: '3' });
  const ask = async (client: RawClient) => {
    client.write(get('/v1/healthz'));
    return (await client.answer())?.status;
  };
  for (let n = 0; n < 10; n++) assert.equal(await ask(await connectRaw(gateway.url)), 200);
  assert.equal(await endedConnections(gateway, 'idle'), 7);
  await gateway.stop();
});
