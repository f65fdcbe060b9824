import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { EndpointSecrets } from '../../../src/features/partner-webhooks/endpoint-secrets.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';

async function startManager(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-endpoint-secrets-'));
  const manager = createFileSecretsManager({ dir });
  t.after(async () => {
    await manager.close();
    await rm(dir, { recursive: true, maxRetries: 5 });
  });
  return manager;
}

for (const value of [
  '{"secret": whsec_MfKQ9r8GKYqrTwjU',
  '"whsec_MfKQ9r8GKYqrTwjU"',
  '{"secret":"whsec_MfKQ"}',
])
  test(`a secret that can't be read is none, and is replaced: ${value}`, async (t) => {
    const manager = await startManager(t);
    await manager.write('webhook-endpoints/whe_1', value, null);
    const secrets = new EndpointSecrets(manager);
    assert.equal((await secrets.of('whe_1', '0')).length, 0);
    await secrets.renew('whe_1', new Date());
    assert.equal((await secrets.of('whe_1', '0')).length, 1);
  });

test('a secret that is looked for before it is there is found later', async (t) => {
  const manager = await startManager(t);
  // Two replicas: one sends to the endpoint while the other still makes it.
  const [sender, maker] = [new EndpointSecrets(manager), new EndpointSecrets(manager)];
  assert.equal((await sender.of('whe_1', '0')).length, 0);
  await maker.renew('whe_1', new Date());
  assert.equal((await sender.of('whe_1', '0')).length, 1);
});
