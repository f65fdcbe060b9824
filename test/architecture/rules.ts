const platform = (...names: string[]) => names.map((name) => `src/platform/${name}`);

/** The database as table modules see it. */
const store = [
  ...platform('store/database.ts', 'store/statements.ts', 'store/failures.ts'),
  ...platform('store/leases.ts', 'store/turns.ts'),
];
const reporting = platform('observability', 'base');

/** What every feature may use; of the adapters only their ports. */
const belowFeatures = [
  'src/feature.ts',
  'src/api',
  'src/records',
  'src/identity',
  ...store,
  ...reporting,
  ...platform('store/database-locks.ts', 'http'),
  ...platform('secrets/secrets-manager.ts', 'secrets/key-set.ts', 'secrets/watched-secret.ts'),
  ...platform('cache/shared-cache.ts', 'settings', 'command-line', 'jobs', 'simulators'),
];

/**
 * Who may import whom, one way only; type imports and dynamic imports count as imports. A folder may always import
 * from itself, Node's own modules, and packages as the second table says.
 *
 *     main → cli → app → features.ts → features → api → identity, records → platform
 *                      → crm → records → platform
 *
 * A name stands for the folder and all in it, or for one file: where a file is named, the rest of its folder is out
 * of reach. That is how features see the port of the secrets manager, the cache and the database, and never
 * one of their adapters.
 */
export const mayImport: Record<string, readonly string[]> = {
  // The programs, and the composition root: the only one that knows every adapter and every setting.
  'src/main.ts': ['src/cli'],
  'src/cli': ['src'],
  'src/app': ['src'],
  'src/features.ts': ['src/feature.ts', 'src/features'],
  // What a feature may bring, and what it builds on.
  'src/feature.ts': ['src/api', 'src/crm', 'src/identity', 'src/records', 'src/platform'],

  // The HTTP face. It knows no feature.
  'src/api': [
    'src/identity',
    ...store,
    ...reporting,
    ...platform('http/connections.ts', 'secrets/key-set.ts', 'settings/table.ts'),
  ],
  'src/records': platform('base'),

  'src/identity/consumers': [
    'src/identity/audit/attempt.ts',
    'src/identity/audit/audit-event.ts',
    'src/identity/audit/audit-event-archive.ts',
    ...reporting,
    ...platform('secrets/secrets-manager.ts', 'secrets/key-set.ts', 'cache/shared-cache.ts'),
  ],
  'src/identity/audit': [...store, ...reporting],
  'src/identity/rate-limits': [
    'src/identity/consumers/consumer.ts',
    ...store,
    ...reporting,
    ...platform('cache/shared-cache.ts'),
  ],

  // The CRM, which implements the records.
  'src/crm': [
    'src/records',
    'simulators/salesforce',
    ...reporting,
    ...platform(
      'http',
      'settings/table.ts',
      'cache/shared-cache.ts',
      'secrets/secrets-manager.ts',
      'simulators',
      'store/database.ts',
    ),
  ],

  // Capabilities. What one uses of another stands here.
  'src/features/handoff': ['src/features/events', ...belowFeatures],
  'src/features/trips': ['src/features/handoff', ...belowFeatures],
  'src/features/records': belowFeatures,
  'src/features/reservations': ['src/features/events', 'simulators/dining', ...belowFeatures],
  'src/features/events': belowFeatures,
  'src/features/partner-webhooks': ['src/features/events', ...belowFeatures],
  'src/features/crm-webhooks': belowFeatures,
  // What it keeps is what the CRM says of itself.
  'src/features/org-schema': ['src/crm/describe.ts', 'src/crm/org-schema.ts', ...belowFeatures],
  'src/features/usage': belowFeatures,
  'src/features/test-mode': ['src/features/events', ...belowFeatures],
  'src/features/history': belowFeatures,
  'src/features/read-copy': ['src/features/events', ...belowFeatures],
  'src/features/consumer-admin': [...belowFeatures, ...platform('cache', 'secrets')],
  'src/features/oauth': [...belowFeatures, ...platform('secrets/secrets.ts')],
  'src/features/people': belowFeatures,
  'src/features/mcp': belowFeatures,
  'src/features/discovery': belowFeatures,
  'src/features/console': belowFeatures,

  // Ports, each with its adapters, and what all else stands on.
  'src/platform/command-line': platform('cache', 'store', 'settings', 'observability', 'base'),
  'src/platform/secrets': platform('settings/table.ts', 'observability', 'base'),
  'src/platform/cache': platform('secrets/key-set.ts', 'secrets/secrets-manager.ts', 'observability', 'base'),
  'src/platform/store': platform('observability', 'base'),
  'src/platform/jobs': platform('store/database.ts', 'store/failures.ts', 'observability', 'base'),
  'src/platform/simulators': platform('settings/table.ts', 'secrets/secrets-manager.ts', 'base'),
  // Parts get their section of the settings whole; its type follows from the table.
  'src/platform/settings': platform('base'),
  'src/platform/observability': platform('http/connections.ts', 'base'),
  // HTTP both ways: calls to other systems, and what connections to our own servers may cost.
  'src/platform/http': platform('base'),
  'src/platform/base': [],

  // Outside the service. The simulators are what it is tested against: shared code would prove nothing.
  'simulators/shared': [],
  'simulators/salesforce': ['simulators/shared'],
  'simulators/dining': ['simulators/shared'],
  salesforce: ['scripts/run-with-node-24.js'],

  // What runs in a browser: nothing of the server's.
  console: [],
};

/** Where each package may be imported in src and simulators; one that is not named here may not be imported there. */
export const packageHomes: Record<string, readonly string[]> = {
  commander: ['src/cli', 'src/features', 'src/feature.ts', 'src/platform/command-line'],
  fastify: ['src/api'],
  '@fastify/ajv-compiler': ['src/api/server.ts'],
  '@scalar/fastify-api-reference': ['src/api/openapi'],
  undici: ['src/platform/http', 'src/platform/secrets/vault-http.ts'],
  'openid-client': ['src/features/people'],
  jose: ['src/crm', 'src/features/oauth', 'simulators/salesforce'],
  '@aws-sdk/client-secrets-manager': ['src/platform/secrets'],
  ioredis: ['src/platform/cache/redis.ts'],
  'pg-boss': ['src/platform/jobs'],
  pg: ['src/platform/store'],
  '@electric-sql/pglite': ['src/platform/store'],
  // Each module writes the queries for its own tables.
  kysely: [
    'src/platform/store',
    'src/api/idempotency',
    'src/crm/budget',
    'src/identity/audit',
    'src/identity/rate-limits',
    'src/features',
  ],
  pino: ['src/platform/observability'],
  'prom-client': ['src/platform/observability', 'src/features'],
  // One module, loaded only where traces are exported.
  '@opentelemetry/api': ['src/platform/observability/otlp-tracing.ts'],
  '@opentelemetry/exporter-trace-otlp-http': ['src/platform/observability/otlp-tracing.ts'],
  '@opentelemetry/exporter-trace-otlp-proto': ['src/platform/observability/otlp-tracing.ts'],
  '@opentelemetry/resources': ['src/platform/observability/otlp-tracing.ts'],
  '@opentelemetry/sdk-trace': ['src/platform/observability/otlp-tracing.ts'],
  marked: ['src/features/discovery/guides.ts'],
  typebox: ['src', 'simulators/salesforce'],
  yaml: ['src/records/mapping-file.ts', 'simulators/salesforce'],
  leven: ['src/platform/settings', 'src/api/pipeline/request-head.ts'],
  '@handoff-gateway/client': ['console'],
  preact: ['console'],
  'ipaddr.js': ['src/platform/base/networks.ts'],
  '@jetstreamapp/soql-parser-js': ['simulators/salesforce'],
  'fast-xml-parser': ['simulators/salesforce'],
};
