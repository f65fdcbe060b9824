import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { addSigningKey } from '../../src/features/oauth/signing-keys.ts';
import { createConsumers } from '../../src/identity/consumers/consumers.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { migrate } from '../../src/platform/store/migrate.ts';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { certificateOf } from '../support/certificates.ts';
import { partnerCredentials, startOwnPartner } from '../support/dining-partner.ts';
import { ownEnvironment } from '../support/environment.ts';
import { eventually } from '../support/eventually.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { recordLog } from '../support/log.ts';
import { startOwnOrg } from '../support/own-org.ts';
import { startPostgres } from '../support/postgres.ts';
import { findRedis } from '../support/redis.ts';
import { codeBlocks, readPage, root } from './pages.ts';

/** The samples of a page, from a heading on. */
function samples(path: string, language: string, heading = /^# .*$/m): string[] {
  const [, section = ''] = readPage(path).split(heading);
  return codeBlocks(section)
    .filter((block) => block.language === language)
    .map(({ text }) => text);
}

/** Names of all members in their order, those of objects inside with a dot. */
function namesOf(value: object): string[] {
  return Object.entries(value).flatMap(([name, inner]) =>
    inner !== null && typeof inner === 'object'
      ? [name, ...namesOf(inner).map((own) => `${name}.${own}`)]
      : [name],
  );
}

describe('samples of what the service says', () => {
  let installation: Installation;
  let gateway: GatewayProcess;
  before(async () => {
    installation = await createInstallation({ CHANGES_POLL_SECONDS: '3600' });
    gateway = await installation.start();
  });
  after(() => installation.remove());

  test('the log line of a request has the members that the page shows, in their order', async () => {
    const { console } = await installation.credentials();
    const body = { type: 'quote', trip_id: randomUUID(), member_id: gateway.org.memberId };
    const response = await fetch(`${gateway.url}/api/v1/handoff`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-api-key': console.apiKey,
        'x-api-secret': console.apiSecret,
      },
      body: JSON.stringify({ ...body, result: { name: 'a', source: 'b', details: {} } }),
    });
    assert.equal(response.status, 201);
    const find = () => gateway.output.find((line) => line.includes('"POST /api/v1/handoff"'));
    await eventually(() => assert.notEqual(find(), undefined), { everyMs: 10 });
    const names = namesOf(JSON.parse(find() as string));
    const [whole = ''] = samples('docs/logs.md', 'json');
    assert.deepEqual(namesOf(JSON.parse(whole)), names);
  });

  // After the hand-off: the CRM has reported its quota by then.
  test('the health has the members that the page shows, in their order', async () => {
    const { apiKey, apiSecret } = (await installation.credentials()).console;
    const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
    const health = (await (await fetch(`${gateway.url}/v1/healthz`, { headers })).json()) as object;
    const [sample = ''] = samples('docs/health.md', 'json', /^## Health$/m);
    assert.deepEqual(namesOf(JSON.parse(sample)), namesOf(health));
  });
});

const postgres = await startPostgres();
const redis = await findRedis();
after(() => postgres?.stop());

test('doctor says what its page shows', {
  skip: !(postgres && redis) && 'no PostgreSQL or Redis',
}, async () => {
  const { log } = recordLog();
  await using opened = new AsyncDisposableStack();
  const org = await startOwnOrg();
  opened.defer(() => org.close());
  const dining = await startOwnPartner();
  opened.defer(() => dining.close());
  const database = openPostgres({ url: postgres?.url as string, log });
  opened.defer(() => database.close());
  await migrate(database);
  const dataDir = await mkdtemp(join(tmpdir(), 'handoff-sample-'));
  opened.defer(() => rm(dataDir, { recursive: true, maxRetries: 5 }));
  const secretsDir = join(dataDir, 'secrets');
  const secretValues = {
    'crm/staging/private-key': org.privateKey + (await certificateOf(org.privateKey, 400)),
    'dining/staging/password': partnerCredentials.password,
    'webhooks/crm': `whsec_${randomBytes(32).toString('base64')}`,
  };
  for (const [name, value] of Object.entries(secretValues)) {
    await mkdir(dirname(join(secretsDir, name)), { recursive: true, mode: 0o700 });
    await writeFile(join(secretsDir, name), value, { mode: 0o600 });
  }
  const privateKeyFile = join(secretsDir, 'crm/staging/private-key');
  const secrets = createFileSecretsManager({ dir: secretsDir });
  opened.defer(() => secrets.close());
  const { store } = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 30 });
  for (const name of ['a', 'b', 'c'])
    await store.create({ name, permissions: [{ resource: 'quotes', actions: ['read'] }] });
  const { key } = await addSigningKey(secrets, 'staging', Date.now(), 30);
  await org.org.arm({
    match: { operation: 'token' },
    effect: { kind: 'tokenError', error: 'invalid_grant', description: "user hasn't approved this consumer" },
  });

  const env = {
    ...{ ...ownEnvironment(), DATA_DIR: dataDir, DATABASE_URL: postgres?.url, REDIS_URL: redis, ...org.env },
    ...{ HANDOFF_ENVIRONMENT: 'staging', DINING_BASE_URL: dining.partner.url },
    DINING_USERNAME: partnerCredentials.username,
    // It has a certificate and its key, as the port needs them.
    ...{ TLS_CERT_FILE: privateKeyFile, TLS_KEY_FILE: privateKeyFile },
  };
  const shown = await new Promise<string>((resolve) => {
    const command = [join(root, 'src/cli/main.ts'), 'doctor'];
    execFile(process.execPath, command, { env, cwd: dataDir }, (_, stdout) => resolve(stdout));
  });
  const [sample = ''] = samples('docs/doctor.md', 'text');
  const plain = (text: string) =>
    text.replaceAll(/\s+/g, ' ').replace(/schema version \d+/, 'schema version …');
  const published = shown
    .replace(secretsDir, '/etc/handoff/secrets')
    .replaceAll(/ expires on [\d-]+/g, ' expires on 2028-03-01')
    .replace(dining.partner.url, 'https://bookings.partner.example/google')
    .replace(key.kid, 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs');
  // The page shows the first check that is skipped, and leaves out the others.
  const skipped = /^skipped .*\n/gm;
  const others = (published.match(skipped) ?? []).slice(1);
  assert.ok(others.length > 0);
  const abridged = published.replaceAll(skipped, (line) => (others.includes(line) ? '' : line));
  assert.equal(plain(abridged), plain(sample));
});
