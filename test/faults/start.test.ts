import assert from 'node:assert/strict';
import { it } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { createInstallation } from '../support/gateway-process.ts';
import { startOwnOrg } from '../support/own-org.ts';
import { freePort } from '../support/ports.ts';
import { type OwnPostgresServer, startPostgresServer } from '../support/postgres.ts';
import { VaultServer } from '../support/vault-server.ts';

const server = await startPostgresServer();

it('a start waits for PostgreSQL and the secrets manager but not for Redis; readiness shows it, and the stop', {
  skip: !server && 'PostgreSQL is not installed',
}, async (t) => {
  const postgres = server as OwnPostgresServer;
  const vault = await VaultServer.start();
  vault.fault = ({ path }) => (path.startsWith('auth/') ? undefined : 'sealed');
  const ownOrg = await startOwnOrg();
  vault.put('handoff-gateway/crm/dev/private-key', { value: ownOrg.privateKey });
  const metricsPort = await freePort();
  const installation = await createInstallation(
    {
      DATABASE_URL: postgres.url,
      REDIS_URL: `redis://127.0.0.1:${await freePort()}`,
      SECRETS_MANAGER: 'vault',
      VAULT_ADDR: vault.address,
      VAULT_TOKEN: vault.makeToken(),
      METRICS_PORT: String(metricsPort),
      DRAIN_SECONDS: '3',
    },
    ownOrg,
  );
  const probe = (path: string) =>
    fetch(`http://127.0.0.1:${metricsPort}${path}`, { headers: { connection: 'close' } }).then(
      ({ status }) => status,
      () => undefined,
    );
  const until = async (isSo: () => boolean | Promise<boolean>) => {
    await eventually(async () => assert.ok(await isSo()));
  };
  t.after(async () => {
    await installation.remove();
    await ownOrg.close();
    await vault.stop();
    await postgres.stop();
  });
  await postgres.crash();
  const starting = installation.start();
  await until(async () => (await probe('/livez')) === 200);
  assert.equal(await probe('/readyz'), 503);
  await postgres.restart();
  // Consumers are looked for when the database is there.
  await until(() => vault.calls.some(({ path }) => path.includes('handoff-gateway/')));
  assert.equal(await probe('/readyz'), 503);
  vault.fault = () => undefined;
  const gateway = await starting;
  assert.equal(await probe('/readyz'), 200);
  const health = await (await fetch(`${gateway.url}/v1/healthz`)).json();
  assert.partialDeepStrictEqual(health, { status: 'ok', cache: { connected: false } });
  gateway.signal('SIGTERM');
  await until(async () => (await probe('/readyz')) === 503);
  assert.equal(await probe('/livez'), 200);
  // A balancer that has not seen it yet may send more.
  const late = await fetch(`${gateway.url}/v1/healthz`);
  assert.deepEqual([late.status, late.headers.get('connection')], [200, 'close']);
  assert.deepEqual(await gateway.ended, { code: 0, signal: null });
});
