import assert from 'node:assert/strict';
import { cp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createConsumers } from '../../src/identity/consumers/consumers.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { eventually } from '../support/eventually.ts';
import type { Credentials } from '../support/gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { recordLog } from '../support/log.ts';

/** What a lost mount leaves: an empty folder. */
async function empty(folder: string): Promise<void> {
  for (const entry of await readdir(folder)) await rm(join(folder, entry), { recursive: true });
}

describe('a secrets folder that was emptied', () => {
  let installation: Installation;
  let gateway: GatewayProcess;
  let console: Credentials;
  let admin: Credentials;
  let secrets: string;
  let backup: string;

  before(async () => {
    installation = await createInstallation();
    gateway = await installation.start();
    ({ console, admin } = await installation.credentials());
    secrets = join(installation.dataDir, 'secrets');
    backup = join(installation.dataDir, 'backup');
    await cp(secrets, backup, { recursive: true });
  });
  after(() => installation.remove());

  const call = (path: string, { apiKey, apiSecret }: Credentials, method = 'GET') =>
    fetch(`${gateway.url}${path}`, { method, headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret } });
  const untilConnected = async (wanted: boolean) => {
    return eventually(async () => {
      const health = await fetch(`${gateway.url}/v1/healthz`);
      const { secretsManager } = (await health.json()) as { secretsManager: { connected: boolean } };
      assert.equal(secretsManager.connected, wanted);
      return health.status;
    });
  };
  const untilStatus = async (path: string, as: Credentials, wanted: number) => {
    await eventually(async () => assert.equal((await call(path, as)).status, wanted));
  };

  it('counts as unavailable: what is loaded keeps working, and changes are refused', async () => {
    await empty(secrets);
    assert.equal(await untilConnected(false), 200);
    assert.equal((await call('/v1/quotes', console)).status, 200);
    const rotation = await call(`/v1/admin/consumers/${console.id}/rotate`, admin, 'POST');
    assert.equal(rotation.status, 503);
    assert.equal(((await rotation.json()) as { code: string }).code, 'secrets_unavailable');
    // A key that nobody has, of a consumer that there is, makes the gateway look for it: nothing is revoked.
    const wrong = { ...console, apiKey: admin.apiKey };
    assert.equal((await call('/v1/quotes', wrong)).status, 401);
    assert.equal((await call('/v1/quotes', admin)).status, 200);
  });

  it('keeps a restarted process waiting, which makes no consumers of its own', async () => {
    gateway.signal('SIGTERM');
    await gateway.ended;
    const output: string[] = [];
    const starting = installation.start({}, undefined, output);
    await eventually(() => assert.match(output.join('\n'), /waiting for the secrets manager/));
    // Nothing but the files of its locks, which stay there.
    const names = await readdir(secrets);
    assert.deepEqual(
      names.filter((name) => !/^~.*\.lock$/.test(name)),
      [],
    );
    await cp(backup, secrets, { recursive: true });
    gateway = await starting;
    assert.deepEqual(await installation.credentials(), { console, admin });
    await untilConnected(true);
    assert.equal((await call('/v1/quotes', console)).status, 200);
  });

  it('is taken up again when its content is back', async () => {
    await empty(secrets);
    await untilConnected(false);
    await cp(backup, secrets, { recursive: true });
    await untilConnected(true);
    assert.equal((await call('/v1/quotes', console)).status, 200);
  });

  it('is another thing than a consumer that is deleted alone, and than the last one revoked', async () => {
    await rm(join(secrets, 'consumers', console.id));
    await untilStatus('/v1/quotes', console, 401);
    assert.equal((await call('/v1/quotes', admin)).status, 200);
    // The API does not revoke the last administrator.
    const manager = createFileSecretsManager({ dir: secrets });
    const options = { log: recordLog().log, metrics: createMetrics(), refreshSeconds: 3600 };
    await createConsumers({ secrets: manager, ...options }).administration.revoke(admin.id);
    await manager.close();
    await untilStatus('/v1/quotes', admin, 401);
    // Its record goes once the revocation is recorded.
    await eventually(async () => assert.ok((await readdir(join(secrets, 'consumers'))).length <= 0));
    await sleep(500);
    await untilConnected(true);
    assert.equal((await call('/v1/quotes', admin)).status, 401);
  });
});
