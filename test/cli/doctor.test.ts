import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { closeServer, listen } from '../../simulators/shared/server.ts';
import { noteOrg } from '../../src/crm/token/token-provider.ts';
import { createAuthenticatedCache, loadCacheKeys } from '../../src/platform/cache/authenticated.ts';
import { createRedisCache } from '../../src/platform/cache/redis.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { member } from '../../src/records/members.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import { certificateOf } from '../support/certificates.ts';
import { describedFor } from '../support/described.ts';
import { partnerCredentials, startOwnPartner } from '../support/dining-partner.ts';
import { useDoctor } from '../support/doctor.ts';
import { createInstallation, type Installation } from '../support/gateway-process.ts';
import { recordLog } from '../support/log.ts';
import { embedded } from '../support/own-database.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { copyEmptyDatabase } from '../support/pglite.ts';
import { freePort } from '../support/ports.ts';
import { startRedis } from '../support/redis.ts';

const { commands, run, visit } = useDoctor();

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

  /** What the org says of members, quotes and bookings; null: that it has no such object. */
  const armDescriptions = (...descriptions: (object | null)[]) =>
    own.org.arm({
      match: { operation: 'composite' },
      times: 1,
      effect: {
        ...{ kind: 'error', status: 200, errorCode: 'none', contentType: 'application/json' },
        message: JSON.stringify({
          compositeResponse: [
            ...descriptions.map((body) => ({
              httpStatusCode: body === null ? 404 : 200,
              body: body ?? [{ errorCode: 'NOT_FOUND', message: 'The requested resource does not exist' }],
            })),
            // Nothing is said about rights.
            { httpStatusCode: 200, body: { done: true, records: [] } },
          ],
        }),
      },
    });

  test('says of every part what it is, for people and machines, and changes nothing', async () => {
    const files = await readdir(dataDir, { recursive: true });
    const { code, output, ok, find } = await visit(dataDir, own.env);
    assert.deepEqual([code, ok], [0, true], output);
    assert.match(find('database').detail, /^embedded, schema version \d/);
    assert.match(find('Salesforce user').detail, /^\w.*, last signed in from 127\.0\.0\.1$/);
    assert.equal(find('Salesforce fields').detail, 'Contact, Quote__c, Booking__c');
    assert.match(
      find('Salesforce version').detail,
      /^68\.0, with no announced end; the org offers 31\.0 to 68\.0$/,
    );
    assert.match(find('Salesforce calls').detail, /^\d+ of \d+ used in the last 24 hours/);
    const forPeople = await run(dataDir, own.env);
    assert.equal(forPeople.code, 0);
    assert.match(
      forPeople.output,
      /^ok {7}settings .*\n(ok .*\n){4}skipped {2}TLS .*\nok .*\nskipped {2}Salesforce certificate .*\n(ok .*\n){4}skipped {2}Salesforce owners .*\nok .*\nskipped {2}dining partner .*dining\.\* isn't set.*\n(ok .*\n){3}$/,
    );
    const secretFiles = (all: string[]) => all.filter((name) => name.startsWith('secrets/')).sort();
    assert.deepEqual(secretFiles(await readdir(dataDir, { recursive: true })), secretFiles(files));
  });

  for (const [error, description, advice] of [
    ['invalid_grant', "user hasn't approved this consumer", /pre-authorized .* permission set/],
    ['invalid_app_access', 'user is not admin approved to access this app', /may not use the app/],
    ['invalid_grant', 'audience is invalid', /set crm\.audience/],
    ['inactive_user', 'user is inactive', /Activate it/],
  ] as const) {
    test(`says what to fix where the token is refused: ${error} "${description}"`, async () => {
      await own.org.arm({
        match: { operation: 'token' },
        effect: { kind: 'tokenError', error, description },
      });
      const { code, ok, find } = await visit(dataDir, own.env);
      assert.deepEqual([code, ok], [1, false]);
      assert.equal(find('Salesforce private key').state, 'ok');
      assert.equal(find('Salesforce sign-in').state, 'failed');
      assert.match(find('Salesforce sign-in').detail, advice);
      assert.deepEqual(find('Salesforce user'), {
        name: 'Salesforce user',
        state: 'skipped',
        detail: 'needs Salesforce sign-in to succeed',
      });
      assert.equal(find('Salesforce fields').state, 'skipped');
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
    assert.match(detail, /line 2 isn't "whsec_"/);
    await rm(join(dataDir, 'secrets/webhooks'), { recursive: true });
    assert.match((await visit(dataDir, own.env)).find('webhook secrets').detail, /^none yet/);
  });

  test('says how many keys sign tokens and which one does, and nothing of what they hold', async () => {
    assert.match((await visit(dataDir, own.env)).find('token keys').detail, /^none yet/);
    const name = 'oauth/dev/keys';
    const path = join(dataDir, 'secrets', name);
    const rotate = async () => {
      const args = ['--config', join(dataDir, 'config.json'), 'keys', 'rotate', '--json'];
      const { stdout } = await commands.run(args, { env: { DATA_DIR: dataDir } });
      return (JSON.parse(stdout) as { kid: string }).kid;
    };
    const first = await rotate();
    assert.equal(
      (await visit(dataDir, own.env)).find('token keys').detail,
      `one in ${name}; signing with ${first}`,
    );
    await rotate();
    assert.equal(
      (await visit(dataDir, own.env)).find('token keys').detail,
      `2 in ${name}; signing with ${first}`,
    );
    const right = await readFile(path, 'utf8');
    const { keys } = JSON.parse(right) as { keys: { d: string }[] };
    for (const wrong of [right.slice(0, -20), right.replaceAll('P-256', 'P-384'), '{"keys":[]}', 'sesame']) {
      await writeFile(path, wrong);
      const { code, output, find } = await visit(dataDir, own.env);
      assert.deepEqual([code, find('token keys').state], [1, 'failed']);
      assert.ok(find('token keys').detail.startsWith(`Can't use ${name}. `));
      assert.ok(!keys.some(({ d }) => output.includes(d)));
    }
    await rm(join(dataDir, 'secrets/oauth'), { recursive: true });
  });

  test('names fields that are not there, and may not be written', async () => {
    const ofQuotes = describedFor(quote, {
      ...{ Details__c: null, Details_8__c: null },
      ...{ Source__c: { updateable: false }, External_Id__c: { unique: false } },
    });
    await armDescriptions(describedFor(member), ofQuotes, null);
    const { code, find } = await visit(dataDir, own.env);
    assert.equal(code, 1);
    const { state, detail } = find('Salesforce fields');
    assert.equal(state, 'failed');
    assert.match(detail, /^Quote__c\.Details__c doesn't exist/m);
    assert.match(detail, /^Quote__c\.Details_8__c doesn't exist/m);
    assert.match(detail, /^Quote__c\.Source__c can't be written/m);
    assert.match(detail, /^Quote__c\.External_Id__c isn't unique/m);
    assert.match(detail, /^Booking__c doesn't exist/m);
    assert.match(detail, /^Deploy the package in salesforce\//m);
    assert.doesNotMatch(detail, /Contact/);
    assert.equal(find('Salesforce user').state, 'ok');
  });

  test('fields that the service can do without are named, and no fault', async () => {
    await own.org.change({ missingFields: ['Quote__c.Actor__c'] });
    const { find } = await visit(dataDir, own.env);
    await own.org.change({ missingFields: [] });
    const { state, detail } = find('Salesforce fields');
    assert.equal(state, 'ok');
    assert.match(
      detail,
      /\nThe gateway works without these:\nQuote__c\.Actor__c doesn't exist, .*\nDeploy the package/,
    );
  });

  test('a column that lists are filtered by and that has no index is named, and no fault', async () => {
    const ofQuotes = describedFor(quote, { Trip_Id__c: { externalId: false } });
    await armDescriptions(describedFor(member), ofQuotes, describedFor(booking));
    const { ok, find } = await visit(dataDir, own.env);
    assert.equal(ok, true);
    assert.match(
      find('Salesforce fields').detail,
      /\nLists get slow .* no index:\nQuote__c\.Trip_Id__c isn't an external ID\nDeploy the package/,
    );
    const file = join(dataDir, 'own.yaml');
    await writeFile(file, 'version: 1\nresources: {}\n');
    await armDescriptions(describedFor(member), ofQuotes, describedFor(booking));
    const mapped = await visit(dataDir, { ...own.env, CRM_MAPPING_FILE: file });
    assert.match(
      mapped.find('Salesforce fields').detail,
      /\nQuote__c\.Trip_Id__c isn't an external ID\nRun `handoff org check`: .* external IDs in Setup\.$/,
    );
  });

  test('another audience that the org takes is found, and the end of the certificate is shown', async () => {
    const path = join(dataDir, 'secrets/crm/dev/private-key');
    await writeFile(path, own.privateKey + (await certificateOf(own.privateKey, 400)));
    const { find } = await visit(dataDir, { ...own.env, CRM_AUDIENCE: 'https://login.salesforce.com' });
    assert.match(find('Salesforce certificate').detail, /^expires on 20\d\d-\d\d-\d\d$/);
    const { state, detail } = find('Salesforce sign-in');
    assert.equal(state, 'failed');
    assert.match(
      detail,
      /^app_not_found \(External client app .*\): .*My Domain.*another org.*crm\.clientId.*permission set/,
    );
    const url = String(own.env['CRM_LOGIN_URL']);
    assert.ok(
      detail.endsWith(`\nSign-in works if you set crm.loginUrl to ${url}, and leave crm.audience unset.`),
    );
  });

  test('assertions go to no address that somebody else has put into Redis', async (t) => {
    const redis = await startRedis();
    if (redis === undefined) return t.skip('no redis-server');
    const secrets = createFileSecretsManager({ dir: join(dataDir, 'secrets') });
    const metrics = createMetrics();
    const { log } = recordLog();
    const plain = createRedisCache({ url: redis.url, log });
    let asked = 0;
    const server = createServer((_request, response) => {
      asked += 1;
      response.writeHead(400).end('{"error":"app_not_found"}');
    });
    const { url } = await listen(server);
    t.after(async () => {
      await closeServer(server);
      await plain.close();
      await redis.stop();
    });
    const env = { ...own.env, CRM_AUDIENCE: 'https://login.salesforce.com', REDIS_URL: redis.url };
    const keys = await loadCacheKeys(secrets, 'dev');
    const sealed = createAuthenticatedCache({ cache: plain, keys, log, metrics });
    for (const [cache, isAsked] of [
      [plain, false],
      [sealed, true],
    ] as const) {
      await noteOrg(
        { accessToken: 'x', instanceUrl: url, lifetimeSeconds: undefined, orgId: undefined },
        { cache, environment: 'dev', log },
      );
      assert.match((await visit(dataDir, env)).find('Salesforce sign-in').detail, /Sign-in works if/);
      assert.equal(asked > 0, isAsked);
    }
  });

  test('a Redis whose user may not subscribe is refused in its words', async (t) => {
    const user = ['--user', 'app', 'on', '>word', '~*', '+@all', 'resetchannels'];
    const redis = await startRedis({ more: user });
    if (redis === undefined) return t.skip('no redis-server');
    t.after(() => redis.stop());
    const { find } = await visit(dataDir, {
      ...own.env,
      REDIS_URL: redis.url.replace('//', '//app:word@'),
    });
    assert.equal(find('cache').state, 'failed');
    assert.match(find('cache').detail, /^Can't use Redis \(Redis: NOPERM .*what its user may do\.$/);
  });

  test('a version that the org does not offer is named, and a certificate that ends soon', async () => {
    const path = join(dataDir, 'secrets/crm/dev/private-key');
    await writeFile(path, own.privateKey + (await certificateOf(own.privateKey, 20)));
    const { find } = await visit(dataDir, { ...own.env, CRM_API_VERSION: '75.0' });
    await writeFile(path, own.privateKey);
    assert.equal(find('Salesforce certificate').state, 'failed');
    assert.match(find('Salesforce certificate').detail, /^It expires on /);
    assert.equal(find('Salesforce version').state, 'failed');
    assert.match(find('Salesforce version').detail, /is 75\.0, but the org offers 31\.0 to 68\.0/);
    assert.equal(find('Salesforce user').state, 'ok');
    assert.equal(find('Salesforce fields').state, 'skipped');
  });

  test('says whether users, and the queue of a mapping, can be looked up', async () => {
    const { find } = await visit(dataDir, { ...own.env, CRM_OWNER_MATCH: 'Email' });
    assert.equal(find('Salesforce owners').state, 'ok', find('Salesforce owners').detail);
    const file = join(dataDir, 'owners.yaml');
    await writeFile(
      file,
      'version: 1\nresources: {quote: {owner: {match: Username, else: {queue: No_Such_Queue}}}}\n',
    );
    const other = await visit(dataDir, { ...own.env, CRM_MAPPING_FILE: file });
    assert.equal(other.find('Salesforce owners').state, 'failed');
    assert.match(
      other.find('Salesforce owners').detail,
      /names the queue No_Such_Queue as an owner, but there is no such queue/,
    );
    await own.org.insert('Group', [{ Name: 'Desk', DeveloperName: 'No_Such_Queue', Type: 'Queue' }]);
    const third = await visit(dataDir, { ...own.env, CRM_MAPPING_FILE: file });
    assert.equal(third.find('Salesforce owners').state, 'ok', third.find('Salesforce owners').detail);
    await own.org.change({ missingFields: ['User.Username', 'Group.DeveloperName'] });
    const hidden = await visit(dataDir, { ...own.env, CRM_MAPPING_FILE: file });
    await own.org.change({ missingFields: [] });
    assert.equal(hidden.find('Salesforce owners').state, 'failed');
    assert.match(
      hidden.find('Salesforce owners').detail,
      /^User can't provide owners: Can't read User\.Username\. Give the integration user read access to User.*\nUser can't provide owners: Can't read Group/,
    );
  });

  test('names the objects of which the user may not see all, and may not delete', async () => {
    const allow = (Contact: object, Quote__c: object) =>
      fetch(`${own.org.url}/simulator/org`, {
        method: 'PATCH',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ objects: { Contact, Quote__c } }),
      });
    await allow({ viewAll: false }, { deletable: false });
    const { find } = await visit(dataDir, own.env);
    await allow({ viewAll: null }, { deletable: null });
    const { state, detail } = find('Salesforce fields');
    assert.equal(state, 'failed');
    assert.match(
      detail,
      /^Contact isn't fully visible: the integration user lacks View All Records, .*\nQuote__c can't be deleted by the integration user\nDeploy/,
    );
  });

  for (const password of ['hunter2-pass', 'hunter2%zz'])
    test(`a key that is none, stores that are unavailable, and no password in what is said: ${password}`, async () => {
      const port = await freePort();
      const env = {
        ...own.env,
        CRM_PRIVATE_KEY_SECRET: 'crm/none',
        DATABASE_URL: `postgres://u:${password}@127.0.0.1:${port}/x`,
        REDIS_URL: `redis://:${password}@127.0.0.1:${port}`,
      };
      const { code, output, find } = await visit(dataDir, env);
      assert.equal(code, 1);
      for (const name of ['database', 'cache', 'Salesforce private key'])
        assert.equal(find(name).state, 'failed', name);
      assert.match(find('Salesforce private key').detail, /crm\/none doesn't exist/);
      assert.doesNotMatch(output, new RegExp(`${password}|PRIVATE KEY`));
    });

  test('wrong settings are named, and all else is skipped', async () => {
    const { code, find } = await visit(dataDir, { PORT: 'many', CRM_USERNAME: 'x' });
    assert.equal(code, 1);
    assert.match(find('settings').detail, /port \(PORT\)[^]*crm\.loginUrl/);
    assert.equal(find('Salesforce fields').state, 'skipped');
  });
});

describe('handoff doctor, with everything embedded', () => {
  let installation: Installation;
  before(async () => {
    installation = await createInstallation(embedded);
  });
  after(() => installation.remove());

  test('leaves a running service alone, and looks at what it left behind', async () => {
    const { dataDir } = installation;
    const gateway = await installation.start();
    const beside = await visit(dataDir, {});
    assert.equal(beside.code, 0, beside.output);
    assert.match(beside.find('keys and consumers').detail, /^2 consumers$/);
    assert.match(beside.find('database').detail, /in use by process \d+ \(handoff serve/);
    assert.equal(beside.find('Salesforce private key').state, 'skipped');
    assert.equal((await fetch(`${gateway.url}/v1/healthz`)).status, 200);
    gateway.signal('SIGTERM');
    assert.equal((await gateway.ended).code, 0);

    const alone = await visit(dataDir, {});
    assert.equal(alone.code, 0, alone.output);
    assert.match(alone.find('Salesforce private key').detail, /simulated org/);
    for (const name of ['database', 'Salesforce sign-in', 'Salesforce user', 'Salesforce fields'])
      assert.equal(alone.find(name).state, 'ok', name);
  });

  test('says before the first start what is not there yet', async (t) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'handoff-doctor-'));
    t.after(async () => {
      await rm(dataDir, { recursive: true, maxRetries: 5 });
    });
    await mkdir(dataDir, { recursive: true });
    await writeFile(join(dataDir, 'config.json'), '{}');
    const { code, find } = await visit(dataDir, {});
    assert.equal(code, 0);
    assert.match(find('database').detail, /first start creates/);
    assert.match(find('Salesforce private key').detail, /simulated org/);
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
    assert.match((await found()).detail, /doesn't offer ListBookings/);
    assert.deepEqual(await own.partner.bookings(), []);
  });

  test('says what to fix where the credentials are refused, also behind an open HealthCheck', async () => {
    await own.partner.set({ quirks: ['openHealthCheck'] });
    const { state, detail } = await found({ DINING_USERNAME: 'somebody' });
    assert.equal(state, 'failed');
    assert.match(
      detail,
      /rejects somebody \(status 401\)\. .* get new ones, .* secret dining\/dev\/password/,
    );
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
    assert.match((await found()).detail, /status 404\. Check dining\.baseUrl, .*\/v3\/HealthCheck/);
  });
});
