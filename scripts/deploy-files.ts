import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { settingsTable } from '../src/app/settings.ts';
import type { Setting } from '../src/platform/settings/setting.ts';

/*
 * Files of deploy/ whose content stands elsewhere: the alert rules of the Helm chart, the schema of its values, which follows
 * from values.yaml and the table of settings, and the settings that Compose passes on. generate-docs.ts writes them.
 */

const root = join(import.meta.dirname, '..');
const chart = 'deploy/helm/handoff-gateway';
const read = (path: string) => readFileSync(join(root, path), 'utf8');

/** Where a container listens and keeps its files. */
export const containerVariables = ['HOST', 'PORT', 'METRICS_HOST', 'METRICS_PORT', 'DATA_DIR', 'SECRETS_DIR'];

/** What the chart sets itself, or takes from a secret. */
const ownVariables = new Set([
  ...containerVariables,
  ...['DATABASE_URL', 'REDIS_URL', 'VAULT_TOKEN', 'VAULT_K8S_TOKEN_FILE'],
]);

/** Objects that Kubernetes knows and the chart passes on, beside those that are empty in values.yaml. */
const passedOn = new Set(['podSecurityContext', 'securityContext', 'resources']);

/** What the type of a value does not say, by its path. */
const further: Record<string, object> = {
  'image.pullPolicy': { enum: ['Always', 'IfNotPresent', 'Never'] },
  'image.digest': { pattern: '^(sha256:[0-9a-f]{64})?$' },
  'service.type': { enum: ['ClusterIP', 'NodePort', 'LoadBalancer'] },
  'ingress.hosts': {
    items: {
      type: 'object',
      required: ['host'],
      properties: { host: { type: 'string' } },
      additionalProperties: false,
    },
  },
  'networkPolicy.egressPorts': { items: { type: 'integer', minimum: 1, maximum: 65_535 } },
};

/** By path inside the project. */
export function deployFiles(): Record<string, string> {
  const values = parse(read(`${chart}/values.yaml`)) as Values;
  const { properties, ...rest } = objectSchema(values, '');
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...rest,
    // `global` is what Helm hands to every chart.
    properties: { ...properties, settings: settingsSchema(), global: { type: 'object' } },
  };
  return {
    [`${chart}/values.schema.json`]: `${JSON.stringify(schema, null, 2)}\n`,
    [`${chart}/files/alerts.yaml`]: read('docs/monitoring/alerts.yaml'),
    'deploy/compose/settings.yaml': composeSettings(),
  };
}

/** An empty variable counts as not set. */
function composeSettings(): string {
  const names = Object.values(settingsTable as Record<string, Setting>)
    .map(({ env }) => env)
    .filter((env) => !containerVariables.includes(env))
    .sort();
  return [
    '# Written by scripts/generate-docs.ts: every setting (docs/settings.md), as the replicas of compose.yaml get it.',
    'services:',
    '  gateway:',
    '    environment:',
    ...names.map((name) => `      ${name}: \${${name}:-}`),
    '',
  ].join('\n');
}

interface Values {
  [name: string]: string | number | boolean | unknown[] | Values;
}

function objectSchema(values: Values, path: string) {
  const properties = Object.entries(values).map(([name, value]) => [name, schemaOf(value, `${path}${name}`)]);
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(properties) as object,
  };
}

function schemaOf(value: Values[string], path: string): object {
  const more = further[path];
  if (Array.isArray(value)) return { type: 'array', ...more };
  if (typeof value === 'number') return { type: 'integer', ...more };
  if (typeof value !== 'object') return { type: typeof value, ...more };
  const isOpen = Object.keys(value).length === 0 || passedOn.has(path);
  return isOpen ? { type: 'object' } : objectSchema(value, `${path}.`);
}

function settingsSchema(): object {
  const rows = Object.values(settingsTable as Record<string, Setting>).filter(
    ({ env }) => !ownVariables.has(env),
  );
  const properties = rows.map(({ env, schema, doc }) => {
    const { type, enum: choices, minimum, exclusiveMinimum, maximum } = schema as Record<string, unknown>;
    // A list is a text with commas, as in the environment.
    const plain = type === 'array' || choices !== undefined ? 'string' : type;
    const bounds = { enum: choices, minimum, exclusiveMinimum, maximum };
    return [env, { type: plain, ...bounds, description: doc }];
  });
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(properties) as object,
  };
}
