import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { type Credentials, useGateway } from '../support/gateway.ts';

type Report = { status: string } & Record<string, Record<string, unknown>>;

describe('GET /v1/healthz', () => {
  const gateway = useGateway({
    CHANGES_POLL_SECONDS: '5',
    COPY_ENABLED: 'true',
    CRM_DAILY_CALL_BUDGET: '100000',
  });
  let reader: Credentials;

  before(async () => {
    reader = await gateway.newConsumer({ resource: 'members', actions: ['read'] });
    await gateway.request('/v1/members');
    // What reads changes, and the copy that it writes, are connected once they have read everything.
    await eventually(async () =>
      assert.ok(!partsOf((await ask(null)).text).some(({ connected }) => !connected)),
    );
  });

  async function ask(as: { apiKey: string; apiSecret: string } | null, method = 'GET') {
    const response = await gateway.request('/v1/healthz', { as, method });
    const text = await response.text();
    return { status: response.status, length: response.headers.get('content-length'), text };
  }
  const reportOf = (text: string) => JSON.parse(text) as Report;
  const partsOf = (text: string) => {
    const { status: _status, ...parts } = reportOf(text);
    return Object.values(parts);
  };

  test('shows without credentials what is connected, and who the gateway is in the CRM', async () => {
    const { status, text } = await ask(null);
    const { status: state, crm, ...parts } = reportOf(text);
    assert.deepEqual([status, state], [200, 'ok']);
    assert.deepEqual(Object.keys(crm ?? {}), ['connected', 'user']);
    assert.deepEqual(Object.keys(crm?.['user'] ?? {}), ['Id', 'Name']);
    const names = ['secretsManager', 'database', 'cache', 'handoffs', 'changes', 'copy', 'dining'];
    assert.deepEqual(Object.keys(parts).sort(), names.sort());
    for (const part of Object.values(parts)) assert.deepEqual(Object.keys(part), ['connected']);
  });

  test('shows everything to a consumer, whatever it may do', async () => {
    const { crm, handoffs, copy } = reportOf((await ask(reader)).text);
    assert.ok(crm?.['quota']);
    assert.deepEqual(Object.keys(handoffs ?? {}), ['connected', 'waiting', 'oldest_seconds']);
    assert.ok(copy && 'records' in copy);
  });

  test('without TLS of its own the service says nothing of TLS', async () => {
    const { headers } = await gateway.request('/v1/healthz');
    assert.equal(headers.get('strict-transport-security'), null);
  });

  test('HEAD is answered alike', async () => {
    for (const as of [null, reader]) {
      const [head, full] = [await ask(as, 'HEAD'), await ask(as)];
      assert.deepEqual([head.status, head.text], [200, '']);
      assert.ok(Math.abs(Number(head.length) - full.text.length) < 20);
    }
  });

  test('with wrong credentials it is as without, and that is an attempt that failed', async () => {
    const { text } = await ask(null);
    const wrong = [
      { apiKey: reader.apiKey, apiSecret: gateway.admin.apiSecret },
      { apiKey: 'nobody', apiSecret: 'nothing' },
    ];
    for (const as of wrong) assert.deepEqual(await ask(as), { ...(await ask(null)), text });
    const found = await eventually(async () => {
      const page = await gateway.request('/v1/admin/auth-attempts?limit=200', { as: gateway.admin });
      type Attempt = { endpoint: string; result: string; status: number };
      const { data } = (await page.json()) as { data: Attempt[] };
      const refused = data.filter(
        ({ endpoint, result }) => endpoint === 'GET /v1/healthz' && result !== 'accepted',
      );
      assert.ok(refused.length >= 2, JSON.stringify(refused));
      return refused;
    });
    assert.deepEqual(found.map(({ result, status }) => [result, status]).sort(), [
      ['unknown_key', 200],
      ['wrong_secret', 200],
    ]);
  });

  test('credentials that may not be used from there show nothing more', async () => {
    const change = { allowedAddresses: ['192.0.2.1'] };
    await gateway.request(`/v1/admin/consumers/${reader.id}`, {
      method: 'PATCH',
      as: gateway.admin,
      body: change,
    });
    assert.equal((await ask(reader)).text, (await ask(null)).text);
  });
});
