import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { tokenCalls } from '../../../support/token-calls.ts';

describe('where the keys that sign tokens cannot be read at a start', () => {
  const earlier = useGateway();
  let gateway: TestGateway;
  let calls: ReturnType<typeof tokenCalls>;
  before(async () => {
    const secretsDir = join(earlier.dataDir, 'secrets');
    await writeFile(join(secretsDir, 'oauth/dev/keys'), 'sesame');
    gateway = await startGateway({ SECRETS_DIR: secretsDir });
    calls = tokenCalls(gateway, gateway.url);
  });
  after(async () => {
    await gateway.stop();
  });

  test('pairs work, tokens get 503, and what needs neither is answered as ever', async () => {
    const quotes = await gateway.request('/v1/quotes', { as: earlier.console });
    assert.equal(quotes.status, 200);
    const token = await tokenCalls(earlier, earlier.url).tokenFor(calls.withPair(earlier.console));
    await assertProblem(await calls.call('/v1/quotes', token), 503, 'secrets_unavailable');
    await assertProblem(await calls.ask(calls.withPair(earlier.console)), 503, 'secrets_unavailable');
    await assertProblem(await calls.call('/oauth/jwks', token), 503, 'secrets_unavailable');
    assert.equal((await calls.call('/v1/healthz', token)).status, 200);
    assert.equal((await calls.call('/v1/docs', token)).status, 200);
    await assertProblem(await calls.call('/nothing', token), 404, 'not_found');
    assert.ok(!JSON.stringify(gateway.logLines).includes('sesame'));
  });
});
