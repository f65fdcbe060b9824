import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createConsumers } from '../../src/identity/consumers/consumers.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createVaultSecretsManager } from '../../src/platform/secrets/vault.ts';
import { createCertificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import type { Credentials } from '../support/gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { startLoad } from '../support/load.ts';
import { recordLog } from '../support/log.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { freePort } from '../support/ports.ts';
import { startRedis } from '../support/redis.ts';
import { createRequests, type Requests } from '../support/requests.ts';
import { VaultServer } from '../support/vault-server.ts';

describe('a gateway with its secrets in Vault', () => {
  let vault: VaultServer;
  let ownOrg: OwnOrg;
  let installation: Installation;
  let gateway: GatewayProcess;
  let admin: Credentials;
  let requests: Requests;

  before(async () => {
    vault = await VaultServer.start();
    ownOrg = await startOwnOrg();
    const token = vault.makeToken();
    vault.put('handoff-gateway/crm/dev/private-key', { value: ownOrg.privateKey });
    admin = await makeConsumer(token);
    const env = {
      SECRETS_MANAGER: 'vault',
      VAULT_ADDR: vault.address,
      VAULT_TOKEN: token,
      SECRETS_REFRESH_SECONDS: '1',
    };
    // Without the cache of members each read goes to the CRM.
    installation = await createInstallation({ ...env, MEMBER_CACHE_SECONDS: '0' }, ownOrg);
    gateway = await installation.start();
    requests = createRequests({ org: ownOrg.org, credentials: { console: admin, admin } });
  });
  after(async () => {
    await installation.remove();
    await ownOrg.close();
    await vault.stop();
  });

  async function makeConsumer(token: string): Promise<Credentials> {
    const { log } = recordLog();
    const signIn = { method: 'token', token } as const;
    const location = { address: vault.address, mount: 'secret', prefix: 'handoff-gateway' };
    const secrets = createVaultSecretsManager({
      ...location,
      signIn,
      log,
      namespace: undefined,
      ca: undefined,
    });
    const { store } = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 30 });
    const made = await store.create({
      name: 'admin',
      permissions: [
        { resource: 'members', actions: ['read'] },
        { resource: 'quotes', actions: ['read', 'write'] },
        { resource: 'consumers', actions: ['read', 'write'] },
      ],
    });
    await secrets.close();
    return { id: made.consumer.id, apiKey: made.apiKey, apiSecret: made.apiSecret };
  }

  const health = async () => {
    // What to fix is for consumers only.
    const headers = { 'x-api-key': admin.apiKey, 'x-api-secret': admin.apiSecret };
    const response = await fetch(`${gateway.url}/v1/healthz`, { headers });
    return { code: response.status, ...((await response.json()) as Health) };
  };
  const untilHealth = async (isWanted: (state: Health) => boolean) => {
    return eventually(async () => {
      const state = await health();
      assert.ok(isWanted(state), JSON.stringify(state));
      return state;
    });
  };
  const rotate = (graceWindowHours: number) =>
    fetch(`${gateway.url}/v1/admin/consumers/${admin.id}/rotate`, {
      method: 'POST',
      headers: {
        'x-api-key': admin.apiKey,
        'x-api-secret': admin.apiSecret,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ graceWindowHours }),
    });
  const load = () =>
    startLoad(3, async (client) => {
      const kinds = [requests.read, requests.handOff, requests.create];
      await kinds[client]?.(gateway.url);
    });

  it('serves on while Vault is unavailable, refuses a rotation, and says so', async () => {
    const clients = load();
    await clients.successes(30);
    vault.fault = () => 'reset';
    const state = await untilHealth(({ secretsManager }) => !secretsManager.connected);
    assert.partialDeepStrictEqual(state, { code: 200, status: 'ok', crm: { connected: true } });
    // A token is due meanwhile: the key that was read before signs for it.
    await ownOrg.org.revokeTokens();
    await clients.successes(60);
    const refused = await rotate(1);
    assert.equal(refused.status, 503);
    const problem = (await refused.json()) as { code: string };
    assert.equal(problem.code, 'secrets_unavailable');
    assert.ok(refused.headers.get('retry-after'));
    vault.fault = () => undefined;
    await untilHealth(({ secretsManager }) => secretsManager.connected);
    await clients.successes(30);
    await clients.stop();
    assert.deepEqual(clients.failures, []);
    const rotated = await rotate(1);
    assert.equal(rotated.status, 200);
  });

  it('says that the CRM is unavailable, and recovers by itself', async () => {
    const down = await ownOrg.org.arm({ match: {}, effect: { kind: 'down' } });
    await assert.rejects(requests.read(gateway.url), /^Error: 503 .*"code":"crm_unavailable"/);
    const state = await untilHealth(({ crm }) => !crm.connected);
    assert.partialDeepStrictEqual(state, {
      code: 503,
      status: 'unavailable',
      crm: { connected: false, user: null },
    });
    await down.remove();
    assert.equal((await untilHealth(({ crm }) => crm.connected)).code, 200);
    await requests.read(gateway.url);
  });

  it('says what to fix where the CRM refuses it for good', async () => {
    const description = "user hasn't approved this consumer";
    const refusal = await ownOrg.org.arm({
      match: {},
      effect: { kind: 'tokenError', error: 'invalid_grant', description },
    });
    await ownOrg.org.revokeTokens();
    for (let round = 0; round < 10; round++) {
      await assert.rejects(requests.read(gateway.url), /"code":"crm_unavailable"/);
    }
    await refusal.hit(1);
    const { crm } = await untilHealth((state) => state.crm.reason !== undefined);
    assert.deepEqual([crm.reason, crm.sign_in?.error_description], ['sign_in', description]);
    assert.match(
      crm.advice ?? '',
      /^Nobody approved the app for the integration user\. Set the app's permitted users/,
    );
    assert.equal(gateway.output.filter((line) => line.includes('Salesforce gave no access token')).length, 1);
    await refusal.remove();
  });
});

interface Health {
  status: string;
  crm: {
    connected: boolean;
    user: object | null;
    reason?: string;
    advice?: string;
    sign_in?: { error_description: string };
  };
  secretsManager: { connected: boolean };
}

describe('a gateway whose Redis speaks TLS', () => {
  it('uses it where the certificate is trusted, and does not where it is not', async (context) => {
    const certificates = await createCertificates();
    const authority = await certificates.authority('authority');
    const { certFile, keyFile } = await certificates.issue('redis', authority);
    const port = await freePort();
    const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-auth-clients', 'no'];
    const redis = await startRedis({ more: ['--tls-port', String(port), ...files] });
    const installation = await createInstallation({ REDIS_URL: `rediss://127.0.0.1:${port}` });
    context.after(async () => {
      await installation.remove();
      await redis?.stop();
      await certificates.remove();
    });
    if (!redis) return context.skip('there is no Redis');
    const trusting = await installation.start({ NODE_EXTRA_CA_CERTS: authority.certFile });
    await eventually(async () => assert.ok(await isCacheConnected(trusting)), { everyMs: 50 });
    trusting.signal('SIGTERM');
    await trusting.ended;
    const other = await installation.start();
    await eventually(() => assert.ok(other.output.some((line) => line.includes("Redis isn't connected"))), {
      everyMs: 50,
    });
    assert.equal(await isCacheConnected(other), false);
  });

  async function isCacheConnected({ url }: GatewayProcess): Promise<boolean> {
    const { cache } = (await (await fetch(`${url}/v1/healthz`)).json()) as { cache: { connected: boolean } };
    return cache.connected;
  }
});
