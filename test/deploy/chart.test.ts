import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { settingsTable } from '../../src/app/settings.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const chart = join(root, 'deploy/helm/handoff-gateway');
const read = (path: string) => readFileSync(join(chart, path), 'utf8');
const templates = Object.fromEntries(
  readdirSync(join(chart, 'templates')).map((name) => [name, read(`templates/${name}`)]),
);
const sources = Object.values(templates).join('\n');

type Values = Record<string, unknown>;
const values = parse(read('values.yaml')) as Values;
const given = readdirSync(join(chart, 'ci')).map((name) => `ci/${name}`);

/** As Helm lays one file of values over another. */
function lay(under: Values, over: Values): Values {
  const isObject = (value: unknown): value is Values =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const laid = Object.entries(over).map(([key, value]) => {
    const below = under[key];
    return [key, isObject(below) && isObject(value) ? lay(below, value) : value];
  });
  return { ...under, ...(Object.fromEntries(laid) as Values) };
}

describe('the chart', () => {
  const validate = new Ajv({ strictTypes: false }).compile(JSON.parse(read('values.schema.json')) as object);

  test('has the version of the service', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    assert.partialDeepStrictEqual(parse(read('Chart.yaml')), { version, appVersion: version });
  });

  for (const file of given) {
    test(`takes the values of ${file}`, () => {
      assert.ok(validate(lay(values, parse(read(file)) as Values)), JSON.stringify(validate.errors));
    });
  }

  test('refuses values and settings that it does not know, and secrets among the settings', () => {
    for (const wrong of [
      { replicas: 3 },
      { image: { name: 'x' } },
      { settings: { CRM_LOGIN: 'https://login.salesforce.com' } },
      { settings: { DATABASE_URL: 'postgres://gateway@db.internal/gateway' } },
      { settings: { SHUTDOWN_SECONDS: '30' } },
      { ingress: { hosts: ['gateway.example.com'] } },
    ]) {
      assert.equal(validate(lay(values, wrong)), false, JSON.stringify(wrong));
    }
  });

  test('names values that it has, and uses each one', () => {
    const used = [...sources.matchAll(/\.Values\.([\w.]+)/g)].map(([, path = '']) => path);
    const find = (path: string) =>
      path.split('.').reduce<unknown>((value, name) => (value as Values | undefined)?.[name], values);
    assert.deepEqual(
      used.filter((path) => find(path) === undefined),
      [],
    );
    const unused = Object.keys(values).filter((name) => !used.some((path) => path.split('.')[0] === name));
    assert.deepEqual(unused, []);
  });

  test('defines what it includes, and includes what it defines', () => {
    const names = (pattern: RegExp) =>
      [...new Set([...sources.matchAll(pattern)].map(([, name]) => name))].toSorted();
    assert.deepEqual(names(/include "([\w.]+)"/g), names(/define "([\w.]+)"/g));
  });

  test('closes every block that it opens', () => {
    for (const [name, text] of Object.entries(templates)) {
      const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0;
      const opened = count(/\{\{-? *(?:if|range|with|define)\b/g);
      assert.equal(count(/\{\{-? *end\b/g), opened, name);
    }
  });

  test('has the job that its alerts name, whatever the installation is called', () => {
    const jobs = [...read('files/alerts.yaml').matchAll(/job="([^"]+)"/g)].map(([, job]) => job);
    assert.deepEqual([...new Set(jobs)], ['handoff-gateway']);
    assert.match(templates['monitoring.yaml'] ?? '', /- targetLabel: job\n +replacement: handoff-gateway\n/);
  });

  test('has pods without root, capabilities, a token, or files that can be written', () => {
    assert.partialDeepStrictEqual(values, {
      podSecurityContext: {
        runAsNonRoot: true,
        runAsUser: 10001,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
      podDisruptionBudget: { enabled: true },
      networkPolicy: { enabled: true },
    });
    assert.equal(sources.match(/automountServiceAccountToken: false/g)?.length, 3);
  });

  for (const file of given) {
    test(`is rendered by Helm with ${file}`, async (context) => {
      const isThere = await run('helm', ['version']).then(Boolean, () => false);
      if (!isThere) return context.skip('there is no helm');
      await run('helm', ['lint', '--strict', '--values', join(chart, file), chart]);
      const { stdout } = await run('helm', ['template', 'test', '--values', join(chart, file), chart]);
      assert.match(stdout, /kind: Deployment/);
    });
  }
});

test('every variable in what is deployed is a setting', () => {
  const compose = parse(readFileSync(join(root, 'compose.yaml'), 'utf8'), { merge: true }) as {
    services: Record<string, { environment?: object; stop_grace_period?: string }>;
  };
  const unit = readFileSync(join(root, 'deploy/systemd/handoff-gateway.service'), 'utf8');
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8');
  const [environment = ''] = /^ENV (?:.*\\\n)*.*$/m.exec(dockerfile) ?? [];
  const found = {
    chart: [...sources.matchAll(/- name: ([A-Z][A-Z\d_]+)$/gm)].map(([, name]) => name),
    list: [...sources.matchAll(/"([A-Z\d]+_[A-Z\d_]+)"/g)].map(([, name]) => name),
    compose: ['gateway-1', 'gateway-2'].flatMap((name) =>
      Object.keys(compose.services[name]?.environment ?? {}),
    ),
    unit: [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, line = '']) =>
      line.split(' ').map((pair) => pair.split('=')[0]),
    ),
    dockerfile: [...environment.matchAll(/([A-Z_]+)=/g)].map(([, name]) => name),
  };
  const known = new Set<string | undefined>([
    ...Object.values(settingsTable).map(({ env }) => env),
    ...['NODE_ENV', 'NODE_OPTIONS', 'COMPOSE_FIXED_SETTINGS'],
  ]);
  for (const [where, names] of Object.entries(found)) {
    assert.ok(names.length > 0, where);
    assert.deepEqual(
      names.filter((name) => !known.has(name)),
      [],
      where,
    );
  }
});

test('whatever stops the service waits longer than it takes', () => {
  const fallback = Number(settingsTable['shutdownSeconds']?.fallback);
  const times = [
    /stop_grace_period: (\d+)s/.exec(readFileSync(join(root, 'compose.yaml'), 'utf8')),
    /TimeoutStopSec=(\d+)/.exec(readFileSync(join(root, 'deploy/systemd/handoff-gateway.service'), 'utf8')),
  ].map((found) => Number(found?.[1]));
  for (const time of times) assert.ok(time > fallback);
  assert.match(
    sources,
    new RegExp(
      `add 10 \\(max \\(get \\.Values\\.settings "SHUTDOWN_SECONDS" \\| default ${fallback} .*"DRAIN_SECONDS"`,
    ),
  );
});
