import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { EndpointSecrets } from '../../../src/features/partner-webhooks/endpoint-secrets.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';

test('a secret that is looked for before it is there is found later', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-endpoint-secrets-'));
  const manager = createFileSecretsManager({ dir });
  t.after(async () => {
    await manager.close();
    await rm(dir, { recursive: true, maxRetries: 5 });
  });
  // Two replicas: one sends to the endpoint while the other still makes it.
  const [sender, maker] = [new EndpointSecrets(manager), new EndpointSecrets(manager)];
  assert.equal((await sender.of('whe_1', '0')).length, 0);
  await maker.renew('whe_1', new Date());
  assert.equal((await sender.of('whe_1', '0')).length, 1);
});
