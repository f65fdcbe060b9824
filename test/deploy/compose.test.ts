import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { containerVariables } from '../../scripts/deploy-files.ts';
import { loadSettings, settingsTable } from '../../src/app/settings.ts';
import { warnOfVariables } from '../../src/cli/process.ts';
import { recordLog } from '../support/log.ts';

const root = join(import.meta.dirname, '../..');
const file = 'compose.yaml';

interface Service {
  environment?: Record<string, string>;
  extends?: { file: string; service: string };
  env_file?: { path: string; required: boolean }[];
  volumes?: (string | { source: string; target: string; read_only?: boolean })[];
  mem_limit?: string;
  logging?: { driver: string; options: Record<string, string> };
  command?: string[];
}

function servicesOf(path: string): Record<string, Service> {
  const text = readFileSync(join(root, path), 'utf8');
  return (parse(text, { merge: true }) as { services: Record<string, Service> }).services;
}

const services = servicesOf(file);
const replicas = ['gateway-1', 'gateway-2'];

/** As Compose lays a service over the one that it extends. */
function environmentOf(name: string): Record<string, string> {
  const { environment = {}, extends: base } = services[name] ?? {};
  const under = base === undefined ? {} : servicesOf(join(dirname(file), base.file))[base.service];
  return { ...under?.environment, ...environment };
}

/** As Compose fills in `${NAME}`, `${NAME:-default}`, `${NAME:+other}` and `${NAME:?message}`, one in another. */
function fillIn(text: string, variables: Record<string, string>): string {
  const innermost = /\$\{([A-Z\d_]+)(?::([-?+])([^${}]*))?\}/;
  for (let found = innermost.exec(text); found; found = innermost.exec(text)) {
    const [whole, name = '', kind, rest = ''] = found;
    const given = variables[name] || (kind === '-' ? rest : '');
    const value = kind === '+' && given ? rest : given;
    if (value === '' && kind === '?') throw new Error(rest);
    text = text.replace(whole, () => value);
  }
  return text;
}

function containerEnvironment(name: string, variables: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environmentOf(name)).map(([key, value]) => [key, fillIn(value, variables)]),
  );
}

const needed = {
  POSTGRES_PASSWORD: 'p',
  REDIS_PASSWORD: 'r',
  CRM_LOGIN_URL: 'https://example.my.salesforce.com',
  CRM_CLIENT_ID: 'app',
  CRM_USERNAME: 'gateway@example.com',
};

describe('the replicas of compose.yaml', () => {
  for (const replica of replicas) {
    test(`get every setting: ${replica}`, () => {
      const names = Object.values(settingsTable).map(({ env }) => env);
      const given = Object.fromEntries(names.map((name) => [name, `value of ${name}`]));
      const environment = containerEnvironment(replica, { ...needed, ...given });
      assert.deepEqual(
        names.filter((name) => environment[name] !== given[name]),
        names.filter((name) => containerVariables.includes(name)),
      );
    });
  }

  test('say which settings they do not get', () => {
    const given = Object.fromEntries(containerVariables.map((name) => [name, 'x']));
    const named = (variables: Record<string, string>) =>
      containerEnvironment('gateway-1', { ...needed, ...variables })['COMPOSE_FIXED_SETTINGS']?.trim();
    assert.deepEqual(named(given)?.split(' '), containerVariables);
    assert.equal(named({}), '');
    assert.equal(named({ PORT: '9000' }), 'PORT');
    const { log, lines } = recordLog();
    process.env['COMPOSE_FIXED_SETTINGS'] = named({ PORT: '9000', DATA_DIR: '/x' });
    warnOfVariables({ secretsManager: 'file' }, log);
    delete process.env['COMPOSE_FIXED_SETTINGS'];
    const line = lines.find(({ message }) => message.includes('compose.yaml'));
    assert.deepEqual([line?.level, line?.facts['variables']], ['warn', ['PORT', 'DATA_DIR']]);
  });

  test('start with nothing but what is needed, in an environment that the service takes', () => {
    const environment = containerEnvironment('gateway-1', needed);
    const settings = loadSettings({
      ...environment,
      NODE_ENV: 'production',
    });
    assert.equal(settings.environment, 'staging');
    assert.equal(settings.databaseUrl, 'postgres://handoff:p@postgres:5432/handoff');
    assert.equal(settings.redisUrl, 'redis://:r@redis:6379');
    assert.equal(settings.crm.apiVersion, settingsTable['crm.apiVersion']?.fallback);
    assert.equal(settings.crm.mappingFile, undefined);
  });

  test('get what else is in .env, so that a misspelt name is reported', () => {
    for (const replica of replicas)
      assert.deepEqual(services[replica]?.env_file, [{ path: '.env', required: false }]);
    assert.throws(
      () =>
        loadSettings({
          ...containerEnvironment('gateway-1', needed),
          NODE_ENV: 'production',
          CRM_API_VERSIO: '68.0',
        }),
      /CRM_API_VERSIO: there is no such setting; did you mean CRM_API_VERSION\?/,
    );
  });

  test('have the folder of the mapping file, to read', () => {
    for (const replica of replicas) {
      const folder = services[replica]?.volumes?.find(
        (volume) => typeof volume === 'object' && volume.target === '/config',
      );
      assert.partialDeepStrictEqual(folder, { source: './deploy/compose/config', read_only: true });
    }
  });
});

test('every container of compose.yaml has a bounded log and bounded memory', () => {
  for (const [name, { logging, mem_limit: memory }] of Object.entries(services)) {
    assert.match(logging?.options['max-size'] ?? '', /^\d+m$/, name);
    assert.ok(Number(logging?.options['max-file']) > 1, name);
    assert.match(memory ?? '', /^\d+[mg]$/, name);
  }
  const { command = [] } = services['redis'] ?? {};
  assert.equal(command[command.indexOf('--maxmemory') + 1], '192mb');
});

test('a replica that is busy for three seconds keeps its requests', () => {
  const caddyfile = readFileSync(join(root, 'deploy/compose/Caddyfile'), 'utf8');
  const [, proxyTimeout] = /health_timeout (\d+)s/.exec(caddyfile) ?? [];
  assert.ok(Number(proxyTimeout) > 3);
  // A replica that stops is noticed in time all the same.
  const seconds = (name: string) => Number(new RegExp(`health_${name} (\\d+)`).exec(caddyfile)?.[1]);
  assert.ok(seconds('interval') * seconds('fails') < 5);
  const deployment = readFileSync(
    join(root, 'deploy/helm/handoff-gateway/templates/deployment.yaml'),
    'utf8',
  );
  const [, probe = ''] = /readinessProbe:\n([^]*?)resources:/.exec(deployment) ?? [];
  const [, timeout] = /timeoutSeconds: (\d+)/.exec(probe) ?? [];
  const [, failures] = /failureThreshold: (\d+)/.exec(probe) ?? [];
  assert.ok(Number(timeout) > 3 && Number(failures) >= 3);
});
