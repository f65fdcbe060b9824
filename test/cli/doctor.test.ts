import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Finding } from '../../src/cli/doctor.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { partnerCredentials, startOwnPartner } from '../support/dining-partner.ts';
import { ownEnvironment } from '../support/environment.ts';
import { createInstallation, type Installation } from '../support/gateway-process.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { copyEmptyDatabase } from '../support/pglite.ts';
import { freePort } from '../support/ports.ts';

const program = join(import.meta.dirname, '../../src/cli/main.ts');

interface Visit {
  code: number;
  output: string;
  ok: boolean;
  find(name: string): Finding;
}

/** Runs `handoff doctor --json`. */
async function visit(dataDir: string, env: NodeJS.ProcessEnv): Promise<Visit> {
  const { code, output } = await run(dataDir, env, '--json');
  const { ok, checks } = JSON.parse(output) as { ok: boolean; checks: Finding[] };
  const find = (name: string) => checks.find((finding) => finding.name === name) as Finding;
  return { code, output, ok, find };
}

function run(dataDir: string, env: NodeJS.ProcessEnv, ...args: string[]) {
  const all = { ...ownEnvironment(), DATA_DIR: dataDir, ...env };
  const command = [program, '--config', join(dataDir, 'config.json'), 'doctor', ...args];
  return new Promise<{ code: number; output: string }>((resolve) => {
    execFile(process.execPath, command, { env: all }, (error, stdout, stderr) => {
      assert.equal(stderr, '');
      resolve({ code: Number(error?.code ?? 0), output: stdout });
    });
  });
}

describe('handoff doctor, with an org', () => {
  let dataDir: string;
  let own: OwnOrg;

  before(async () => {
    own = await startOwnOrg();
    dataDir = await mkdtemp(join(tmpdir(), 'handoff-doctor-'));
    await copyEmptyDatabase(join(dataDir, 'database'));
    await writeFile(join(dataDir, 'config.json'), '{}');
    await own.trust(join(dataDir, 'secrets'));
  });
  afterEach(() => own.org.reset());
  after(async () => {
    await own.close();
    await rm(dataDir, { recursive: true, maxRetries: 5 });
  });

  test('says of every part what it is, for people and machines, and changes nothing', async () => {
    const files = await readdir(dataDir, { recursive: true });
    const { code, output, ok, find } = await visit(dataDir, own.env);
    assert.deepEqual([code, ok], [0, true], output);
    assert.match(find('database').detail, /^embedded, schema version \d/);
    assert.match(find('CRM call').detail, /^we are \w/);
    assert.equal(find('CRM fields').detail, 'Contact, Quote__c, Booking__c');
    const forPeople = await run(dataDir, own.env);
    assert.equal(forPeople.code, 0);
    assert.match(
      forPeople.output,
      /^ok {7}settings .*\n(ok .*\n){8}skipped {2}dining partner .*dining\.\* is not set.*\n(ok .*\n){2}$/,
    );
    const secretFiles = (all: string[]) => all.filter((name) => name.startsWith('secrets/')).sort();
    assert.deepEqual(secretFiles(await readdir(dataDir, { recursive: true })), secretFiles(files));
  });

  for (const [error, description, advice] of [
    ['invalid_grant', "user hasn't approved this consumer", /pre-authorized .* permission set/],
    ['invalid_app_access', 'user is not admin approved to access this app', /may not use the app/],
    ['invalid_grant', 'audience is invalid', /set crm\.audience/],
    ['inactive_user', 'user is inactive', /activate it/],
  ] as const) {
    test(`says what to fix where the token is refused: ${error} "${description}"`, async () => {
      await own.org.arm({
        match: { operation: 'token' },
        effect: { kind: 'tokenError', error, description },
      });
      const { code, ok, find } = await visit(dataDir, own.env);
      assert.deepEqual([code, ok], [1, false]);
      assert.equal(find('CRM private key').state, 'ok');
      assert.equal(find('CRM token').state, 'failed');
      assert.match(find('CRM token').detail, advice);
      assert.deepEqual(find('CRM call'), { name: 'CRM call', state: 'skipped', detail: 'needs: CRM token' });
      assert.equal(find('CRM fields').state, 'skipped');
    });
  }

  test('says how many webhook secrets are valid, and names lines that are none by their number', async () => {
    const path = join(dataDir, 'secrets/webhooks/crm');
    await mkdir(join(dataDir, 'secrets/webhooks'), { mode: 0o700 });
    const secret = () => `whsec_${randomBytes(32).toString('base64')}`;
    const look = async (...lines: string[]) => {
      await writeFile(path, lines.join('\n'), { mode: 0o600 });
      const { output, find } = await visit(dataDir, own.env);
      for (const line of lines) assert.ok(!output.includes(line));
      return find('webhook secrets');
    };
    assert.match((await look(secret())).detail, /^one, in webhooks\/crm$/);
    assert.match((await look(secret(), secret())).detail, /^2 valid at once/);
    const { state, detail } = await look(secret(), 'sesame-open');
    assert.equal(state, 'failed');
    assert.match(detail, /line 2 is not whsec_/);
    await rm(join(dataDir, 'secrets/webhooks'), { recursive: true });
    assert.match((await visit(dataDir, own.env)).find('webhook secrets').detail, /^none yet/);
  });

  test('names fields that are not there, and may not be written', async () => {
    const field = (name: string, more = {}) => ({
      name,
      createable: true,
      updateable: true,
      unique: true,
      ...more,
    });
    const names = ['Trip_Id__c', 'Member__c', 'Name__c', 'Status__c', 'CreatedDate', 'LastModifiedDate'];
    const fields = [
      ...names.map((name) => field(name)),
      field('External_Id__c', { unique: false }),
      field('Source__c', { updateable: false }),
    ];
    await own.org.arm({
      match: { operation: 'describe', object: 'Quote__c' },
      effect: {
        kind: 'error',
        status: 200,
        errorCode: 'none',
        contentType: 'application/json',
        message: JSON.stringify({ fields }),
      },
    });
    await own.org.arm({
      match: { operation: 'describe', object: 'Booking__c' },
      effect: {
        kind: 'error',
        status: 404,
        errorCode: 'NOT_FOUND',
        message: 'The requested resource does not exist',
      },
    });
    const { code, find } = await visit(dataDir, own.env);
    assert.equal(code, 1);
    const { state, detail } = find('CRM fields');
    assert.equal(state, 'failed');
    assert.match(detail, /^Quote__c\.Details__c is not there/m);
    assert.match(detail, /^Quote__c\.Details_8__c is not there/m);
    assert.match(detail, /^Quote__c\.Source__c may not be written/m);
    assert.match(detail, /^Quote__c\.External_Id__c is not unique/m);
    assert.match(detail, /^Booking__c: /m);
    assert.match(detail, /^Deploy the package in salesforce\//m);
    assert.doesNotMatch(detail, /Contact/);
    assert.equal(find('CRM call').state, 'ok');
  });

  test('fields that the service can do without are named, and no fault', async () => {
    await own.org.change({ missingFields: ['Quote__c.Actor__c'] });
    const { find } = await visit(dataDir, own.env);
    await own.org.change({ missingFields: [] });
    const { state, detail } = find('CRM fields');
    assert.equal(state, 'ok');
    assert.match(
      detail,
      /; the service works without:\nQuote__c\.Actor__c is not there, .*\nDeploy the package/,
    );
  });

  test('a column that lists are filtered by and that has no index is named, and no fault', async () => {
    const columns = Object.values(quote.fields).flatMap((field) => [
      ('lookupColumn' in field.crm && field.crm.lookupColumn) || field.crm.path,
      ...(('continuations' in field.crm && field.crm.continuations) || []),
    ]);
    const fields = columns.map((name) => ({
      ...{ name, createable: true, updateable: true, unique: name === 'External_Id__c' },
      externalId: name === 'Consumer_Id__c',
    }));
    await own.org.arm({
      match: { operation: 'describe', object: 'Quote__c' },
      effect: {
        kind: 'error',
        status: 200,
        errorCode: 'none',
        contentType: 'application/json',
        message: JSON.stringify({ fields }),
      },
    });
    const { ok, find } = await visit(dataDir, own.env);
    assert.equal(ok, true);
    assert.match(
      find('CRM fields').detail,
      /; without an index .*:\nQuote__c\.Trip_Id__c is not an external ID\nDeploy the package/,
    );
  });

  test('a key that is none, stores that are away, and no password in what is said', async () => {
    const port = await freePort();
    const password = 'hunter2-pass';
    const env = {
      ...own.env,
      CRM_PRIVATE_KEY_SECRET: 'crm/none',
      DATABASE_URL: `postgres://u:${password}@127.0.0.1:${port}/x`,
      REDIS_URL: `redis://:${password}@127.0.0.1:${port}`,
    };
    const { code, output, find } = await visit(dataDir, env);
    assert.equal(code, 1);
    for (const name of ['database', 'cache', 'CRM private key'])
      assert.equal(find(name).state, 'failed', name);
    assert.match(find('CRM private key').detail, /crm\/none does not exist/);
    assert.doesNotMatch(output, new RegExp(`${password}|PRIVATE KEY`));
  });

  test('wrong settings are named, and all else is skipped', async () => {
    const { code, find } = await visit(dataDir, { PORT: 'many', CRM_USERNAME: 'x' });
    assert.equal(code, 1);
    assert.match(find('settings').detail, /port \(PORT\)[^]*crm\.loginUrl/);
    assert.equal(find('CRM fields').state, 'skipped');
  });
});

describe('handoff doctor, with everything embedded', () => {
  let installation: Installation;
  before(async () => {
    installation = await createInstallation();
  });
  after(() => installation.remove());

  test('leaves a running service alone, and looks at what it left behind', async () => {
    const { dataDir } = installation;
    const gateway = await installation.start();
    const beside = await visit(dataDir, {});
    assert.equal(beside.code, 0, beside.output);
    assert.match(beside.find('keys and consumers').detail, /^2 consumers$/);
    assert.match(beside.find('database').detail, /in use by process \d+ \(handoff serve/);
    assert.equal(beside.find('CRM private key').state, 'skipped');
    assert.equal((await fetch(`${gateway.url}/v1/healthz`)).status, 200);
    gateway.signal('SIGTERM');
    assert.equal((await gateway.ended).code, 0);

    const alone = await visit(dataDir, {});
    assert.equal(alone.code, 0, alone.output);
    assert.match(alone.find('CRM private key').detail, /simulated org/);
    for (const name of ['database', 'CRM token', 'CRM call', 'CRM fields'])
      assert.equal(alone.find(name).state, 'ok', name);
  });

  test('says before the first start what is not there yet', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'handoff-doctor-'));
    try {
      await mkdir(dataDir, { recursive: true });
      await writeFile(join(dataDir, 'config.json'), '{}');
      const { code, find } = await visit(dataDir, {});
      assert.equal(code, 0);
      assert.match(find('database').detail, /first start makes it/);
      assert.match(find('CRM private key').detail, /simulated org/);
    } finally {
      await rm(dataDir, { recursive: true, maxRetries: 5 });
    }
  });
});

describe('handoff doctor, with a dining partner', () => {
  let dataDir: string;
  let own: Awaited<ReturnType<typeof startOwnPartner>>;
  let env: NodeJS.ProcessEnv;
  const found = async (more: NodeJS.ProcessEnv = {}) =>
    (await visit(dataDir, { ...env, ...more })).find('dining partner');

  before(async () => {
    own = await startOwnPartner();
    dataDir = await mkdtemp(join(tmpdir(), 'handoff-doctor-'));
    await writeFile(join(dataDir, 'config.json'), '{}');
    await mkdir(join(dataDir, 'secrets/dining/dev'), { recursive: true, mode: 0o700 });
    await writeFile(join(dataDir, 'secrets/dining/dev/password'), partnerCredentials.password, {
      mode: 0o600,
    });
    env = { DINING_BASE_URL: `${own.partner.url}/`, DINING_USERNAME: partnerCredentials.username };
  });
  afterEach(() => own.partner.reset());
  after(async () => {
    await own.close();
    await rm(dataDir, { recursive: true, maxRetries: 5 });
  });

  test('says that it answers and lets us in, and books nothing', async () => {
    assert.deepEqual(await found(), { name: 'dining partner', state: 'ok', detail: own.partner.url });
    await own.partner.set({ quirks: ['noListBookings'] });
    assert.match((await found()).detail, /without ListBookings/);
    assert.deepEqual(await own.partner.bookings(), []);
  });

  test('says what to fix where the credentials are refused, also behind an open HealthCheck', async () => {
    await own.partner.set({ quirks: ['openHealthCheck'] });
    const { state, detail } = await found({ DINING_USERNAME: 'somebody' });
    assert.equal(state, 'failed');
    assert.match(detail, /refuses somebody \(status 401\): renew .* secret dining\/dev\/password/);
    assert.ok(!detail.includes(partnerCredentials.password));
    assert.match(
      (await found({ DINING_PASSWORD_SECRET: 'not/there' })).detail,
      /secret not\/there .* is missing/,
    );
  });

  test('says what to fix where nobody answers, or somebody else', async () => {
    const nobody = await found({ DINING_BASE_URL: `http://127.0.0.1:${await freePort()}` });
    assert.match(nobody.detail, /ECONNREFUSED\. Check dining\.baseUrl/);
    await own.partner.arm({ effect: { kind: 'error', status: 404 } });
    assert.match((await found()).detail, /status 404\. Check dining\.baseUrl: .*\/v3\/HealthCheck/);
  });
});
