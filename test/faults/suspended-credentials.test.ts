import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import type { Credentials } from '../support/gateway.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';

const writesEach = 10;
/** From then on a process reads consumers again before it decides. */
const pauseMs = 1200;
const quotes = (...actions: string[]) => [{ resource: 'quotes', actions }];

describe('credentials that end while a process is stopped', () => {
  let ownOrg: OwnOrg;
  let cluster: Cluster;
  before(async () => {
    ownOrg = await startOwnOrg();
    cluster = await startCluster(2, ownOrg, { RATE_LIMIT_PER_MINUTE: '0' });
  });
  after(async () => {
    await cluster?.remove();
    await ownOrg?.close();
  });

  const urlOf = (index: number) => (cluster.gateways[index] as { url: string }).url;
  const pairOf = ({ apiKey, apiSecret }: Credentials) => ({ 'x-api-key': apiKey, 'x-api-secret': apiSecret });
  const administer = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${urlOf(1)}/v1/admin/consumers${path}`, {
      method,
      headers: { ...pairOf(cluster.credentials.admin), 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    assert.ok(response.ok, await response.clone().text());
    return (await response.json()) as Credentials;
  };
  /** A consumer that the process to be stopped has loaded. */
  const make = async () => {
    const made = await administer('POST', '', { name: 'to end', permissions: quotes('read', 'write') });
    await eventually(async () =>
      assert.equal((await fetch(`${urlOf(0)}/v1/consumer`, { headers: pairOf(made) })).status, 200),
    );
    return made;
  };
  const tokenOf = async ({ apiKey, apiSecret }: Credentials) => {
    const form = { grant_type: 'client_credentials', client_id: apiKey, client_secret: apiSecret };
    const body = new URLSearchParams(form);
    const response = await fetch(`${urlOf(0)}/oauth/token`, { method: 'POST', body });
    const { access_token } = (await response.json()) as { access_token: string };
    const headers = { authorization: `Bearer ${access_token}` };
    assert.equal((await fetch(`${urlOf(0)}/v1/consumer`, { headers })).status, 200);
    return headers;
  };
  const write = async (trip_id: string, headers: Record<string, string>) => {
    const body = { trip_id, member_id: ownOrg.org.memberId, name: 'n', source: 's', details: {} };
    const response = await fetch(`${urlOf(0)}/v1/quotes`, {
      method: 'POST',
      headers: { ...headers, 'idempotency-key': randomUUID(), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return response.status;
  };

  test('are not accepted when it goes on', async () => {
    const disabled = await make();
    const rotated = await make();
    const reduced = await make();
    const withToken = await make();
    const token = await tokenOf(withToken);
    const trip = randomUUID();
    cluster.gateways[0]?.signal('SIGSTOP');
    const stoppedAt = performance.now();
    await administer('PATCH', `/${disabled.id}`, { enabled: false });
    await administer('PATCH', `/${withToken.id}`, { enabled: false });
    await administer('PATCH', `/${reduced.id}`, { permissions: quotes('read') });
    await administer('POST', `/${rotated.id}/rotate`, { graceWindowHours: 0 });
    const sent = [pairOf(disabled), pairOf(rotated), token, pairOf(reduced)].map((headers) =>
      Promise.all(Array.from({ length: writesEach }, () => write(trip, headers))),
    );
    await sleep(Math.max(0, stoppedAt + pauseMs - performance.now()));
    cluster.gateways[0]?.signal('SIGCONT');
    const answers = await Promise.all(sent);
    assert.deepEqual(
      answers.map((statuses) => [...new Set(statuses)]),
      [[401], [401], [401], [403]],
    );
    assert.deepEqual(await ownOrg.org.records('Quote__c', { Trip_Id__c: trip }), []);
  });
});
