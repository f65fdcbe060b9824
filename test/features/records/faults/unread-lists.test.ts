import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Credentials } from '../../../support/gateway.ts';
import {
  createInstallation,
  type GatewayProcess,
  type Installation,
} from '../../../support/gateway-process.ts';
import { samplesOf } from '../../../support/metrics-lint.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { freePort } from '../../../support/ports.ts';
import { connectRaw } from '../../../support/raw-client.ts';

const MiB = 1024 * 1024;

/** Promised are 3 s; a machine that runs other tests too is slower. */
const longestMs = 10_000;
/** Promised is one minute. */
const longestUntilCutMs = 120_000;

describe('sockets of one consumer that ask for lists of 1.8 MB, twenty each, and never read', () => {
  let ownOrg: OwnOrg;
  let installation: Installation;
  let gateway: GatewayProcess;
  let greedy: Credentials;
  let other: Credentials;
  let open: Socket[] = [];

  before(async () => {
    ownOrg = await startOwnOrg();
    installation = await createInstallation({}, ownOrg);
    gateway = await installation.start({ METRICS_PORT: String(await freePort()) });
    const { console, admin } = await installation.credentials();
    greedy = console;
    other = await newConsumer(admin);
    const rows = Array.from({ length: 200 }, () => ({
      External_Id__c: randomUUID(),
      Name__c: 'n',
      Source__c: 's',
      Details__c: JSON.stringify({ text: 'x'.repeat(8800) }),
    }));
    await ownOrg.org.insert('Quote__c', rows);
    // What the same work costs where answers are read.
    for (let n = 0; n < 10; n++) await Promise.all(Array.from({ length: 10 }, () => list(other)));
  });
  afterEach(() => {
    for (const socket of open) socket.destroy();
    open = [];
  });
  after(async () => {
    await installation.remove();
    await ownOrg.close();
  });

  const headers = ({ apiKey, apiSecret }: Credentials) => ({
    'x-api-key': apiKey,
    'x-api-secret': apiSecret,
  });

  async function newConsumer(admin: Credentials): Promise<Credentials> {
    const permissions = [{ resource: 'quotes', actions: ['read'] }];
    const response = await fetch(`${gateway.url}/v1/admin/consumers`, {
      method: 'POST',
      headers: { ...headers(admin), 'content-type': 'application/json', 'idempotency-key': randomUUID() },
      body: JSON.stringify({ name: 'another', permissions }),
    });
    assert.equal(response.status, 201, await response.clone().text());
    return (await response.json()) as Credentials;
  }

  /** Reads the same list; its milliseconds. */
  async function list(as: Credentials): Promise<number> {
    const startedAt = performance.now();
    const response = await fetch(`${gateway.url}/v1/quotes?limit=200`, { headers: headers(as) });
    assert.equal(response.status, 200);
    const { byteLength } = await response.arrayBuffer();
    assert.ok(byteLength > 1_700_000 && byteLength < 2_000_000, String(byteLength));
    return performance.now() - startedAt;
  }

  async function flood(sockets: number): Promise<void> {
    const lines = Object.entries(headers(greedy)).map(([name, value]) => `${name}: ${value}\r\n`);
    const request = `GET /v1/quotes?limit=200 HTTP/1.1\r\nhost: a\r\n${lines.join('')}\r\n`;
    const clients = await Promise.all(Array.from({ length: sockets }, () => connectRaw(gateway.url)));
    open = clients.map(({ socket }) => socket.pause());
    for (const socket of open) socket.write(request.repeat(20));
  }

  async function cutOff(): Promise<number> {
    const page = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    const found = samplesOf(page).find(
      ({ name, labels }) => name === 'handoff_connections_ended_total' && labels['reason'] === 'unread',
    );
    return found?.value ?? 0;
  }

  async function residentBytes(): Promise<number> {
    const status = await readFile(`/proc/${gateway.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
  }

  for (const sockets of [8, 50]) {
    test(`with ${sockets}: another consumer's list is answered in time, memory is bounded, all are cut off`, async (context) => {
      const [before, cutBefore] = [await residentBytes(), await cutOff()];
      await flood(sockets);
      const startedAt = performance.now();
      let most = 0;
      let own = 0;
      while ((await cutOff()) - cutBefore < sockets) {
        const elapsed = performance.now() - startedAt;
        assert.ok(elapsed < longestUntilCutMs, `${(await cutOff()) - cutBefore} of ${sockets} were cut off`);
        const [ofOther, ofSame] = await Promise.all([list(other), list(greedy)]);
        assert.ok(ofOther < longestMs, `${ofOther} ms`);
        own = ofSame;
        most = Math.max(most, await residentBytes());
        // Some lists are enough: each costs as much as a hundred other requests.
        await delay(500);
      }
      const growth = Math.round((most - before) / MiB);
      context.diagnostic(
        `${growth} MiB more, cut off after ${Math.round((performance.now() - startedAt) / 1000)} s`,
      );
      // Fifty answers that wait to be sent are 90 of them, and other lists are made meanwhile. All that the sockets
      // ask for would be 288 and 1800.
      assert.ok(growth < 256, `${growth} MiB`);
      // At first, what it has asked for before comes first. Then nothing of it is in progress, and the sockets are open.
      assert.ok(own < longestMs, `${own} ms`);
    });
  }
});
