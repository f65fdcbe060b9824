import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { Credentials } from '../../../support/gateway.ts';
import {
  createInstallation,
  type GatewayProcess,
  type Installation,
} from '../../../support/gateway-process.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';

describe('sixteen lists of 200 records with full details, at once', () => {
  let ownOrg: OwnOrg;
  let installation: Installation;
  let gateway: GatewayProcess;
  let credentials: Credentials;

  before(async () => {
    ownOrg = await startOwnOrg();
    installation = await createInstallation({}, ownOrg);
    gateway = await installation.start();
    credentials = (await installation.credentials()).console;
    for (let added = 0; added < 200; added += 20) {
      const rows = Array.from({ length: 20 }, () => ({
        External_Id__c: randomUUID(),
        Name__c: 'n',
        Source__c: 's',
        Details__c: JSON.stringify({ text: 'x'.repeat(131_000) }),
      }));
      await ownOrg.org.insert('Quote__c', rows);
    }
  });
  after(async () => {
    await installation.remove();
    await ownOrg.close();
  });

  const list = async (path: string): Promise<{ status: number; bytes: number }> => {
    const { apiKey, apiSecret } = credentials;
    const response = await fetch(gateway.url + path, {
      headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret },
    });
    return { status: response.status, bytes: (await response.arrayBuffer()).byteLength };
  };

  /** The most memory that the process ever had, in MiB. */
  const mostMemory = async (): Promise<number> => {
    const status = await readFile(`/proc/${gateway.pid}/status`, 'utf8');
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
  };

  test('take little memory, and others are served meanwhile', async () => {
    assert.equal((await list('/v1/quotes?limit=200')).status, 200);
    const before = await mostMemory();
    let areOver = false;
    let others = 0;
    const small = async () => {
      while (!areOver) {
        assert.equal((await list('/v1/members?limit=5')).status, 200);
        others += 1;
      }
    };
    const [pages] = await Promise.all([
      Promise.all(Array.from({ length: 16 }, () => list('/v1/quotes?limit=200'))).finally(() => {
        areOver = true;
      }),
      small(),
    ]);
    for (const { status, bytes } of pages) {
      assert.equal(status, 200);
      assert.ok(bytes > 4_000_000 && bytes < 4_200_000, String(bytes));
    }
    const growth = (await mostMemory()) - before;
    assert.ok(growth < 200, `${growth} MiB`);
    assert.ok(others >= 10, `${others} other requests`);
  });
});
