import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { samplesOf } from '../support/metrics-lint.ts';
import { isNightly } from '../support/nightly.ts';
import { freePort } from '../support/ports.ts';
import { connectRaw } from '../support/raw-client.ts';

const MiB = 1024 * 1024;

describe('clients that do not read, and a gateway as a process', () => {
  let installation: Installation;
  let gateway: GatewayProcess;
  let credentials = '';

  before(async () => {
    installation = await createInstallation();
    // All come from one address: its limit is for another test.
    const env = { METRICS_PORT: String(await freePort()), RATE_LIMIT_PUBLIC_PER_MINUTE: '0' };
    gateway = await installation.start(env);
    const { apiKey, apiSecret } = (await installation.credentials()).console;
    credentials = `x-api-key: ${apiKey}\r\nx-api-secret: ${apiSecret}\r\n`;
  });
  after(() => installation.remove());

  async function sample(metric: string, labels: Record<string, string> = {}): Promise<number> {
    const page = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    const isAsked = (found: Record<string, string>) =>
      Object.entries(labels).every(([name, value]) => found[name] === value);
    const found = samplesOf(page).find(({ name, labels: all }) => name === metric && isAsked(all));
    return found?.value ?? 0;
  }
  const residentBytes = () => sample('process_resident_memory_bytes');

  /** Sends the request so many times over each of so many sockets, and reads nothing. */
  async function attack(sockets: number, times: number, request: string): Promise<Socket[]> {
    const open = Array.from({ length: sockets }, () => {
      return connect(Number(new URL(gateway.url).port), '127.0.0.1').on('error', () => {});
    });
    for (const socket of open) {
      socket.pause().write(request.repeat(times));
      if (socket.connecting) await once(socket, 'connect');
    }
    return open;
  }

  /** The most that was resident while others were served. */
  async function serveOthers(seconds: number): Promise<number> {
    const until = performance.now() + seconds * 1000;
    let most = 0;
    while (performance.now() < until) {
      const answer = await fetch(`${gateway.url}/v1/healthz`);
      assert.equal(answer.status, 200);
      await answer.arrayBuffer();
      most = Math.max(most, await residentBytes());
      await sleep(100);
    }
    return most;
  }

  /**
   * The most that was resident while a client that reads sends the same: the heap grows with the work itself, no matter
   * who reads the answers, and that is not what is measured.
   */
  async function readAnswers(times: number, request: string): Promise<number> {
    const client = await connectRaw(gateway.url);
    let most = await residentBytes();
    for (let sent = 1; sent <= times; sent++) {
      client.write(request);
      assert.ok(await client.answer());
      if (sent % 25 === 0) most = Math.max(most, await residentBytes());
    }
    client.socket.destroy();
    return most;
  }

  const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nhost: a\r\n${headers}\r\n`;
  const floods: [what: string, sockets: number, times: number, request: () => string][] = [
    ['500 requests for the largest script', 1, 500, () => get('/v1/docs/scalar.js')],
    ['500 for the OpenAPI document', 1, 500, () => get('/v1/docs')],
    ['500 for lists', 1, 500, () => get('/v1/members?limit=200', credentials)],
    ['100,000 small ones', 1, 100_000, () => get('/nothing')],
    ['60 clients with 100 requests each', 60, 100, () => get('/v1/docs/scalar.js')],
  ];

  for (const [what, sockets, times, request] of floods) {
    test(`${what} cost at most 40 MiB, while others are served`, async () => {
      const before = await readAnswers(250, request());
      const open = await attack(sockets, times, request());
      const most = await serveOthers(1);
      for (const socket of open) socket.destroy();
      assert.ok(most - before < 40 * MiB, `${Math.round((most - before) / MiB)} MiB more`);
    });
  }

  test('those that go on not reading are cut off', {
    skip: !isNightly && 'it takes a minute: for the nightly run',
  }, async () => {
    const cutOff = () => sample('handoff_connections_ended_total', { reason: 'unread' });
    // The kernel takes the small answers of the others whole: nothing of them is held.
    for (const [what, sockets, times, request] of [...floods.slice(0, 2), ...floods.slice(-2)]) {
      const before = await cutOff();
      const open = await attack(sockets, times, request());
      await serveOthers(45);
      // A busy machine takes longer until it has something to hold.
      await eventually(async () => assert.equal((await cutOff()) - before, sockets, what));
      for (const socket of open) socket.destroy();
    }
  });
});
