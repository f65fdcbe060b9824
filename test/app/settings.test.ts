import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { loadSettings as loadAll, settingsTable } from '../../src/app/settings.ts';
import { divideAmongWorkers } from '../../src/cli/serve.ts';
import type { PartnerWebhooksSettings } from '../../src/features/partner-webhooks/feature.ts';
import type { ReservationsSettings } from '../../src/features/reservations/settings.ts';
import { SettingsError } from '../../src/platform/settings/settings.ts';
import type { Settings } from '../../src/platform/settings/table.ts';
import { similarVariables } from '../../src/platform/settings/variables.ts';

const dir = mkdtempSync(join(tmpdir(), 'handoff-settings-'));
after(() => rmSync(dir, { recursive: true }));

function configFile(content: unknown): string {
  const path = join(dir, `${crypto.randomUUID()}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

const empty = configFile({});

const loadSettings = (env: NodeJS.ProcessEnv, file: string) =>
  loadAll(env, file) as Settings & PartnerWebhooksSettings & ReservationsSettings;

function faultsOf(env: NodeJS.ProcessEnv, file: string = empty): readonly string[] {
  try {
    loadSettings(env, file);
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return error.faults;
  }
  return [];
}

describe('settings', () => {
  test('have the documented defaults when nothing is set', () => {
    const settings = loadSettings({}, empty);
    assert.equal(settings.host, '127.0.0.1');
    assert.equal(settings.port, 8080);
    assert.equal(settings.metricsPort, 9464);
    assert.equal(settings.metricsHost, '127.0.0.1');
    assert.equal(settings.secretsDir, join('.data', 'secrets'));
    assert.equal(settings.crm.loginUrl, undefined);
    assert.equal(settings.crm.privateKeySecret, 'crm/dev/private-key');
    assert.equal(settings.drainSeconds, 0);
    assert.ok(Object.isFrozen(settings));
  });

  test('takes private networks as blocks, none, or the loopback ones outside production', () => {
    const networksOf = (text: string) =>
      loadSettings({ CHANGES_PRIVATE_NETWORKS: text }, empty).changes.privateNetworks;
    assert.deepEqual(networksOf(''), ['127.0.0.0/8', '::1/128']);
    assert.deepEqual(networksOf('none'), []);
    assert.deepEqual(networksOf('10.0.0.0/8, fd00::/8'), ['10.0.0.0/8', 'fd00::/8']);
    for (const wrong of ['10.0.0.0', '10.0.0.0/33', '10.0/8', 'fd00::/129', 'none,10.0.0.0/8', '::1/8/8']) {
      const faults = faultsOf({ CHANGES_PRIVATE_NETWORKS: wrong });
      assert.match(faults.join(), /^changes.privateNetworks \(CHANGES_PRIVATE_NETWORKS\): ".*" isn't a CIDR/);
    }
  });

  test('what counts as a proxy is an address, a network, or one that has a name', () => {
    const TRUST_PROXIES = 'loopback,10.0.0.0/8,::1';
    assert.deepEqual(loadSettings({ TRUST_PROXIES }, configFile({})).trustProxies, TRUST_PROXIES.split(','));
    const faults = faultsOf({ TRUST_PROXIES: 'zz,10.0.0.0/33', PORT: 'many' });
    assert.equal(faults.length, 3);
    assert.match(faults.join('\n'), /^trustProxies \(TRUST_PROXIES\): "zz" is no IP address or CIDR block$/m);
    assert.match(faults.join('\n'), /"10\.0\.0\.0\/33" is no IP/);
  });

  test('the environment overrides the file, and an empty variable counts as not set', () => {
    const file = configFile({ port: 9000, host: '0.0.0.0', metricsHost: '::1' });
    const settings = loadSettings({ PORT: '9100', HOST: '' }, file);
    assert.equal(settings.port, 9100);
    assert.equal(settings.host, '0.0.0.0');
    assert.equal(settings.metricsHost, '::1');
  });

  test('one file may hold all three environments', () => {
    const crm = (name: string) => ({
      loginUrl: `https://${name}.example.com/`,
      clientId: name,
      username: `gateway@${name}.example.com`,
    });
    const file = configFile({
      environment: 'staging',
      environments: { staging: { crm: crm('staging') }, prod: { port: 1, crm: crm('prod') } },
    });
    const staging = loadSettings({}, file);
    assert.equal(staging.crm.loginUrl, 'https://staging.example.com');
    assert.equal(staging.crm.audience, 'https://staging.example.com');
    assert.equal(staging.port, 8080);
    const prod = loadSettings(
      { HANDOFF_ENVIRONMENT: 'prod', CRM_AUDIENCE: 'https://login.example.com' },
      file,
    );
    assert.equal(prod.crm.clientId, 'prod');
    assert.equal(prod.crm.audience, 'https://login.example.com');
    assert.equal(prod.crm.privateKeySecret, 'crm/prod/private-key');
    assert.equal(prod.port, 1);
    // As a file of variables with CRLF sets it.
    assert.equal(loadSettings({ HANDOFF_ENVIRONMENT: 'prod\r' }, file).crm.clientId, 'prod');
  });

  test('a part that is no object is named', () => {
    assert.deepEqual(faultsOf({}, configFile({ crm: 'x' })), ['crm: must be an object']);
  });

  test('every fault is named at once, with its variable', () => {
    const file = configFile({ prot: 1, crm: { url: 'x' }, environments: { prod: { hots: 1 }, qa: {} } });
    const faults = faultsOf(
      { PORT: 'many', CRM_TIMEOUT_MS: '20001', CRM_CLIENT_ID: 'x', LOG_LEVEL: 'loud' },
      file,
    );
    const text = faults.join('\n');
    for (const part of [
      /^prot: there is no such setting; did you mean port\?$/m,
      /^crm\.url: there is no such setting$/m,
      /^environments\.prod\.hots: there is no such setting; did you mean host\?$/m,
      /^environments\.qa: must be one of dev, staging, prod$/m,
      /^port \(PORT\): "many" isn't a whole number from 0 to 65535$/m,
      /^crm\.timeoutMs \(CRM_TIMEOUT_MS\): 20001 isn't a whole number from 100 to 20000$/m,
      /^logLevel \(LOG_LEVEL\): "loud" isn't one of /m,
      /^crm\.loginUrl \(CRM_LOGIN_URL\) is missing: you set crm\.clientId, which needs it/m,
      /^crm\.username \(CRM_USERNAME\) is missing/m,
    ]) {
      assert.match(text, part);
    }
    assert.equal(faults.length, 9);
  });

  test('a value that may hold a password is not repeated in the message', () => {
    const faults = faultsOf({ DATABASE_URL: 'mysql://gateway:hunter2@db/x', REDIS_URL: 'hunter2' });
    assert.equal(faults.length, 2);
    assert.doesNotMatch(faults.join(), /hunter2/);
  });

  test('a Redis of several servers is refused in words, without repeating the password', () => {
    const urls = [
      'redis+sentinel://:hunter2@a:26379,b:26379/main',
      'rediss+cluster://a:6379',
      'redis://a:6379,redis://b:6379',
    ];
    for (const REDIS_URL of urls) {
      const [fault = '', ...others] = faultsOf({ REDIS_URL });
      assert.match(
        fault,
        /^redisUrl \(REDIS_URL\) must be .* one server; for Sentinel or a Cluster, use an address/,
      );
      assert.deepEqual(others, []);
      assert.doesNotMatch(fault, /hunter2/);
    }
    assert.deepEqual(faultsOf({ REDIS_URL: 'rediss://:p@cache:6380/2' }), []);
  });

  test('production needs its stores and a real CRM, and takes no credentials in the clear', () => {
    const production = { NODE_ENV: 'production' };
    const missing = faultsOf(production).join('\n');
    for (const key of [
      'environment',
      'databaseUrl',
      'redisUrl',
      'crm.loginUrl',
      'crm.clientId',
      'crm.username',
    ]) {
      assert.match(missing, new RegExp(`^${key} \\(`, 'm'));
    }
    const complete = {
      ...production,
      HANDOFF_ENVIRONMENT: 'prod',
      DATABASE_URL: 'postgres://db/handoff',
      REDIS_URL: 'rediss://cache',
      CRM_LOGIN_URL: 'https://login.example.com',
      CRM_CLIENT_ID: 'id',
      CRM_USERNAME: 'user',
    };
    assert.deepEqual(faultsOf(complete), []);
    assert.equal(loadSettings(complete, empty).drainSeconds, 5);
    assert.match(faultsOf({ ...complete, CRM_LOGIN_URL: 'http://login.example.com' }).join(), /https/);
    assert.deepEqual(faultsOf({ ...complete, CRM_LOGIN_URL: 'http://127.0.0.1:1' }), []);
  });

  test('takes the time zone of each restaurant', () => {
    const zonesOf = (text: string) => loadSettings({ DINING_TIME_ZONES: text }, empty).dining.timeZones;
    assert.deepEqual(zonesOf('a=b=Europe/Madrid, c=UTC'), ['a=b=Europe/Madrid', 'c=UTC']);
    for (const wrong of ['Europe/Madrid', 'a=', '=UTC', 'a=Europe/Nowhere']) {
      const [fault = ''] = faultsOf({ DINING_TIME_ZONES: wrong });
      assert.match(fault, /^dining\.timeZones \(.*is no merchant id, = and time zone$/);
    }
  });

  test('takes restaurants, from the variable as JSON', () => {
    const nori = {
      merchant_id: 'nori-2',
      name: 'Nori',
      time_zone: 'Europe/London',
      services: [{ service_id: 'counter', name: 'Counter' }],
    };
    const read = loadSettings({ DINING_MERCHANTS: JSON.stringify([nori]) }, empty).dining.merchants;
    assert.deepEqual(read, [nori]);
    const wrong: [string, RegExp][] = [
      ['nori-2', /isn't a list of restaurants/],
      [JSON.stringify([{ ...nori, services: [] }]), /isn't a list of restaurants/],
      [JSON.stringify([{ ...nori, time_zone: 'Europe/Nowhere' }]), /"Europe\/Nowhere" is no time zone/],
      [JSON.stringify([nori, nori]), /"nori-2" is there twice/],
    ];
    for (const [text, expected] of wrong) {
      const [fault = ''] = faultsOf({ DINING_MERCHANTS: text });
      assert.match(fault, expected);
    }
  });

  test('a dining partner is set as a whole, and is not needed', () => {
    assert.equal(loadSettings({}, empty).dining.baseUrl, undefined);
    assert.equal(loadSettings({}, empty).dining.passwordSecret, 'dining/dev/password');
    const partner = { DINING_BASE_URL: 'https://tables.example.com/google/', DINING_USERNAME: 'gateway' };
    const settings = loadSettings({ ...partner, HANDOFF_ENVIRONMENT: 'prod' }, empty);
    assert.deepEqual(settings.dining, {
      baseUrl: 'https://tables.example.com/google',
      username: 'gateway',
      passwordSecret: 'dining/prod/password',
      timeZones: ['casa-olivo-7=Europe/Madrid'],
      merchants: [],
    });
    for (const [key, missing] of [
      ['DINING_BASE_URL', ['dining.username']],
      ['DINING_USERNAME', ['dining.baseUrl']],
      ['DINING_PASSWORD_SECRET', ['dining.baseUrl', 'dining.username']],
    ] as const) {
      const value = key === 'DINING_BASE_URL' ? 'https://tables.example.com' : 'name';
      const faults = faultsOf({ [key]: value });
      assert.equal(faults.length, missing.length);
      for (const name of missing)
        assert.ok(
          faults.some((fault) => fault.startsWith(`${name} (`)),
          name,
        );
    }
    assert.match(
      faultsOf({ DINING_PASSWORD_SECRET: 'no name', ...partner }).join(),
      /dining\.passwordSecret/,
    );
  });

  test('a copy needs the reader of changes', () => {
    assert.deepEqual(faultsOf({ COPY_ENABLED: 'true' }), []);
    assert.match(
      faultsOf({ COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '0' }).join(),
      /^copy\.enabled \(COPY_ENABLED\) needs changes\.pollSeconds/,
    );
  });

  test('more than one worker need PostgreSQL and Redis', () => {
    assert.equal(loadSettings({}, empty).workers, 1);
    assert.deepEqual(faultsOf({ WORKERS: '1' }), []);
    const missing = faultsOf({ WORKERS: '4' });
    assert.match(
      missing.join('\n'),
      /^databaseUrl \(DATABASE_URL\) is missing[\s\S]*^redisUrl \(REDIS_URL\)/m,
    );
    assert.equal(missing.length, 2);
    const stores = { DATABASE_URL: 'postgres://db/handoff', REDIS_URL: 'redis://cache' };
    assert.deepEqual(faultsOf({ WORKERS: '4', ...stores }), []);
    assert.match(faultsOf({ WORKERS: '65', ...stores }).join(), /^workers \(WORKERS\): 65/);
    assert.match(
      faultsOf({ WORKERS: 'some', ...stores }).join(),
      /"some" isn't a whole number from 1 to 64, or auto/,
    );
  });

  test('as many workers as processors share the concurrency of the CRM, where they can share the stores', () => {
    const stores = { DATABASE_URL: 'postgres://db/handoff', REDIS_URL: 'redis://cache' };
    const divided = (env: NodeJS.ProcessEnv, processors: number) => {
      const { workers, crm } = divideAmongWorkers(
        loadSettings({ WORKERS: 'auto', ...env }, empty),
        processors,
      );
      return [workers, crm.maxConcurrency];
    };
    assert.deepEqual(divided({}, 4), [1, 20]);
    assert.deepEqual(divided({ DATABASE_URL: stores.DATABASE_URL }, 4), [1, 20]);
    assert.deepEqual(divided(stores, 4), [4, 5]);
    assert.deepEqual(divided({ ...stores, CRM_MAX_CONCURRENCY: '3' }, 4), [3, 1]);
    assert.deepEqual(divided({ ...stores, WORKERS: '2' }, 4), [2, 20]);
  });

  test('TLS is on with both of its files, and clients are checked only with both of theirs', () => {
    const files = { TLS_CERT_FILE: 'a', TLS_KEY_FILE: 'b' };
    const clients = { TLS_CLIENT_CA_FILE: 'c', TLS_CLIENT_AUTH: 'required' };
    assert.equal(loadSettings({}, empty).tls.certFile, undefined);
    assert.deepEqual(loadSettings({ ...files, ...clients }, empty).tls, {
      certFile: 'a',
      keyFile: 'b',
      clientCaFile: 'c',
      clientAuth: 'required',
    });
    assert.match(faultsOf({ TLS_CERT_FILE: 'a' }).join(), /^tls\.keyFile \(TLS_KEY_FILE\) is missing/);
    assert.match(faultsOf({ TLS_KEY_FILE: 'b' }).join(), /^tls\.certFile \(TLS_CERT_FILE\) is missing/);
    assert.match(faultsOf({ ...files, TLS_CLIENT_CA_FILE: 'c' }).join(), /^tls\.clientAuth \(/);
    assert.match(faultsOf({ ...files, TLS_CLIENT_AUTH: 'optional' }).join(), /^tls\.clientCaFile \(/);
    assert.match(faultsOf(clients).join(), /^tls\.certFile \(/);
  });

  test('variables that begin like settings and are none are refused, with a name that is near, with all other faults', () => {
    const faults = faultsOf({
      PORT: 'many',
      HANDOFF_WHEN_CRM_IS_UNAVAILABEL: 'accept',
      CRM_TIMEOUT: 'hunter2',
      RATE_LIMIT_PERMINUTE: '1',
      TLS_CLIENTAUTH: 'required',
      COPY_ENABLE: '  ',
      CRM_FOO: '1',
    });
    assert.deepEqual(faults.slice(1), [
      'HANDOFF_WHEN_CRM_IS_UNAVAILABEL: there is no such setting; did you mean HANDOFF_WHEN_CRM_IS_UNAVAILABLE?',
      'CRM_TIMEOUT: there is no such setting; did you mean CRM_TIMEOUT_MS?',
      'RATE_LIMIT_PERMINUTE: there is no such setting; did you mean RATE_LIMIT_PER_MINUTE?',
      'TLS_CLIENTAUTH: there is no such setting; did you mean TLS_CLIENT_AUTH?',
      'CRM_FOO: there is no such setting',
    ]);
    assert.match(faults[0] ?? '', /^port \(PORT\)/);
  });

  test('variables of clients and of services in the same cluster are none of them', () => {
    const others = {
      HANDOFF_URL: 'http://127.0.0.1:8080',
      HANDOFF_API_KEY: 'key',
      HANDOFF_API_SECRET: 'secret',
      HANDOFF_GATEWAY_SERVICE_HOST: '10.0.0.1',
      HANDOFF_GATEWAY_SERVICE_PORT: '80',
      HANDOFF_GATEWAY_SERVICE_PORT_HTTP: '80',
      HANDOFF_GATEWAY_PORT: 'tcp://10.0.0.1:80',
      CRM_PORT: 'tcp://10.0.0.2:8080',
      CRM_PORT_8080_TCP: 'tcp://10.0.0.2:8080',
      CRM_PORT_8080_TCP_PROTO: 'tcp',
      CRM_PORT_8080_TCP_PORT: '8080',
      CRM_PORT_8080_TCP_ADDR: '10.0.0.2',
      METRICS_PORT: 'tcp://10.0.0.3:9090',
      METRICS_SERVICE_HOST: '10.0.0.3',
    };
    assert.deepEqual(faultsOf(others), []);
    assert.equal(faultsOf({ CRM_PORT: '8080' }).length, 1);
  });

  test('other variables that are nearly settings are found; those of the system and of other programs are not', () => {
    const near = {
      LOGLEVEL: 'debug',
      DATABASE_ULR: 'x',
      DATADIR: 'x',
      WORKER: '4',
      METRICS_PROT: '1',
      log_level: 'x',
    };
    assert.deepEqual(
      similarVariables(settingsTable, near, 'file').map(({ name, nearest }) => `${name} ${nearest}`),
      [
        'LOGLEVEL LOG_LEVEL',
        'DATABASE_ULR DATABASE_URL',
        'DATADIR DATA_DIR',
        'WORKER WORKERS',
        'METRICS_PROT METRICS_PORT',
        'log_level LOG_LEVEL',
      ],
    );
    const others = {
      ...{
        HOME: '/',
        USER: 'x',
        LOGNAME: 'x',
        HOSTNAME: 'x',
        HOSTTYPE: 'x',
        TERM: 'x',
        PATH: 'x',
        SHELL: 'x',
        PWD: 'x',
      },
      ...{
        AWS_REGION: 'x',
        AWS_DEFAULT_REGION: 'x',
        VAULT_ADDR: 'x',
        VAULT_SKIP_VERIFY: '1',
        LOG_LEVEL: 'info',
      },
      ...{
        REDIS_SERVICE_HOST: 'x',
        REDIS_PORT: 'tcp://10.0.0.1:6379',
        NODE_ENV: 'test',
        npm_config_port: '1',
      },
    };
    assert.deepEqual(similarVariables(settingsTable, others, 'file'), []);
    assert.deepEqual(similarVariables(settingsTable, { VAULT_ADR: 'x' }, 'vault'), [
      { name: 'VAULT_ADR', nearest: 'VAULT_ADDR' },
    ]);
  });

  test('a file that is not there, no JSON or no object is refused in words', () => {
    assert.match(faultsOf({}, join(dir, 'none.json')).join(), /none\.json can't be read/);
    assert.match(faultsOf({}, configFile('{')).join(), /isn't JSON/);
    const [fault] = faultsOf({}, configFile(`{"vault":{"token":'hvs.secret'}}`));
    assert.match(fault ?? '', /isn't JSON: Unexpected token '''$/);
    assert.match(faultsOf({}, configFile('[]')).join(), /must hold an object/);
  });
});
