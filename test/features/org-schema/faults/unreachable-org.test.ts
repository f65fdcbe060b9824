import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../support/eventually.ts';
import {
  createInstallation,
  type GatewayProcess,
  type Installation,
} from '../../../support/gateway-process.ts';
import { offerFor, respondAsync } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';

const mappingFile = join(import.meta.dirname, '../../../../simulators/salesforce/orgs/travel.mapping.yaml');

let own: OwnOrg;
let way: TcpProxy;
let installation: Installation;
let gateway: GatewayProcess;
before(async () => {
  own = await startOwnOrg({ org: 'travel' });
  way = await startTcpProxy(own.org.url);
  await way.cut();
  installation = await createInstallation(
    { CRM_LOGIN_URL: way.url, CRM_AUDIENCE: own.org.url, CRM_MAPPING_FILE: mappingFile },
    own,
  );
});
after(async () => {
  await installation.remove();
  await way.close();
  await own.close();
});

async function send(path: string, body?: object, headers: Record<string, string> = {}) {
  const { apiKey, apiSecret } = (await installation.credentials()).console;
  const response = await fetch(gateway.url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...{ 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'idempotency-key': randomUUID() },
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

const quote = (fields: object) => ({
  ...{ trip_id: randomUUID(), member_id: own.org.memberId, name: 'Hotel', source: 's', details: {} },
  ...fields,
});

test('a service that starts while the org is unavailable knows its types as soon as that answers, and from then on', async () => {
  gateway = await installation.start();
  assert.ok(!(await send('/v1/docs')).text.includes('Half board'));
  for (const { status, text } of [
    await send('/v1/quotes', quote({ budget: 12.5 })),
    await send('/v1/quotes'),
    await send(
      '/api/v1/handoff',
      offerFor(own.org.memberId, { result: { ...quote({}), details: { nights: 3 } } }),
    ),
  ])
    assert.ok(status >= 400, text);
  const { status, text } = await send('/v1/quotes', quote({}));
  assert.ok(status === 502 || status === 503, text);
  // It waits, with what the mapping takes from it.
  const { name, source } = quote({});
  const accepted = await send(
    '/api/v1/handoff',
    offerFor(own.org.memberId, { result: { name, source, details: { nights: 5 } } }),
    respondAsync,
  );
  assert.equal(accepted.status, 202, accepted.text);
  const { external_id } = JSON.parse(accepted.text) as { external_id: string };

  await way.restore();
  await eventually(async () => assert.ok((await send('/v1/docs')).text.includes('Half board')), {
    everyMs: 100,
  });
  const made = await send('/v1/quotes', quote({ budget: 12.5 }));
  assert.equal(made.status, 201, made.text);
  let delivered: Record<string, unknown> | undefined;
  for (; delivered === undefined; await sleep(50))
    [delivered] = await own.org.records('Travel_Offer__c', { Gateway_Key__c: external_id });
  assert.equal(delivered['Nights__c'], 5);

  await way.cut();
  gateway.signal('SIGTERM');
  await gateway.ended;
  gateway = await installation.start();
  assert.ok((await send('/v1/docs')).text.includes('Half board'));
  const refused = await send('/v1/quotes', quote({ board: 'Sauna' }));
  assert.equal(refused.status, 400, refused.text);
});
