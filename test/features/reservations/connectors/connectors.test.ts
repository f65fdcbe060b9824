import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { healthOf, openConnectors } from '../../../../src/features/reservations/connectors/connectors.ts';
import { reservationMetrics } from '../../../../src/features/reservations/metrics.ts';
import { createMetrics } from '../../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../../src/platform/secrets/file.ts';
import { booking } from '../../../../src/records/quotes-and-bookings.ts';
import type { Records } from '../../../../src/records/records.ts';
import { partnerCredentials, startOwnPartner } from '../../../support/dining-partner.ts';
import { eventually } from '../../../support/eventually.ts';
import { startGateway } from '../../../support/gateway.ts';
import { recordLog } from '../../../support/log.ts';

type Health = Record<string, { connected: boolean; reason?: string }>;

it('a connector that is not configured does not exist', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-registry-'));
  const secrets = createFileSecretsManager({ dir });
  await using opened = new AsyncDisposableStack();
  const connectors = openConnectors({
    crm: { records: {} as Records, booking, checkHealth: async () => ({ connected: true }) },
    dining: undefined,
    secrets,
    secretsRefreshSeconds: 30,
    log: recordLog().log,
    metrics: createMetrics(reservationMetrics),
    opened,
  });
  assert.equal(connectors.dining, undefined);
  assert.deepEqual(Object.keys(healthOf(connectors)), ['crm']);
  await secrets.close();
  await rm(dir, { recursive: true, maxRetries: 5 });
});

it('a partner shows in health by itself, and the service works without it', async (t) => {
  let own = await startOwnPartner();
  const { username } = partnerCredentials;
  const gateway = await startGateway({ DINING_BASE_URL: own.partner.url, DINING_USERNAME: username });
  const health = async (until: (dining: Health[string] | undefined) => boolean) => {
    return eventually(async () => {
      const response = await gateway.request('/v1/healthz');
      assert.equal(response.status, 200);
      const { dining } = (await response.json()) as Health;
      assert.ok(until(dining), JSON.stringify(dining));
      return dining;
    });
  };
  const secrets = createFileSecretsManager({ dir: join(gateway.dataDir, 'secrets') });
  t.after(async () => {
    await secrets.close();
    await gateway.stop();
    await own.close();
  });
  // No secret with the password yet.
  assert.deepEqual(await health(() => true), { connected: false, reason: 'credentials' });
  await secrets.write('dining/dev/password', partnerCredentials.password, null);
  await health((dining) => dining?.connected === true);
  await own.close();
  await health((dining) => dining?.connected === false);
  own = await startOwnPartner({ port: own.port });
  await health((dining) => dining?.connected === true);
});

it('without a partner the service simulates one, whose password nobody has to know', async (t) => {
  const gateway = await startGateway();
  t.after(async () => {
    await gateway.stop();
  });
  const response = await gateway.request('/v1/healthz');
  assert.deepEqual(((await response.json()) as Health)['dining'], { connected: true });
  assert.equal(await gateway.diningPartner.calls('HealthCheck'), 1);
  const stranger = await fetch(`${gateway.diningPartner.url}/v3/HealthCheck`);
  assert.equal(stranger.status, 401);
});
