/** The database as table modules see it. */
const storePort = ['src/store/database.ts', 'src/store/statements.ts', 'src/store/failures.ts'];

/**
 * Who may import whom, one way only; type imports and dynamic imports count as imports. A folder may always import
 * from itself, Node's own modules, and packages as the second table says.
 *
 *     main → cli → app → api, crm and the adapters → domain folders → ports → observability → http → base
 *
 * A name stands for the folder and all in it, or for one file: where a file is named, the rest of its folder is out
 * of reach. That is how domain folders see the port of the secrets manager, the cache and the database, and never
 * one of their adapters.
 */
export const mayImport: Record<string, readonly string[]> = {
  // The programs, and the composition root: the only one that knows every adapter and every setting.
  'src/main.ts': ['src/cli'],
  'src/cli': [
    'src/app.ts',
    'src/embedded',
    'src/version.ts',
    'src/settings',
    // The doctor's check of the org; the rest of the CRM is behind the app.
    'src/crm/crm-check.ts',
    ...allBelowApp(),
  ],
  'src/app.ts': [
    'src/connect-crm.ts',
    'src/handoffs.ts',
    'src/partners.ts',
    'src/open-console.ts',
    'src/open-copy.ts',
    'src/watch-changes.ts',
    'src/start-jobs.ts',
    'src/deliveries.ts',
    'src/embedded',
    'src/version.ts',
    'src/settings',
    'src/api',
    'src/crm',
    ...allBelowApp(),
  ],
  // Parts of the composition root, which has outgrown one file.
  'src/start-jobs.ts': ['src/settings', 'src/api', 'src/crm', ...allBelowApp()],
  'src/connect-crm.ts': ['src/embedded', 'src/settings', 'src/crm', ...allBelowApp()],
  'src/handoffs.ts': ['src/settings', 'src/api', 'src/crm', ...allBelowApp()],
  'src/watch-changes.ts': ['src/settings', 'src/crm', ...allBelowApp()],
  'src/partners.ts': ['src/embedded', 'src/settings', 'src/api', 'src/crm', ...allBelowApp()],
  'src/open-console.ts': ['src/version.ts', 'src/settings', 'src/api', 'src/crm', ...allBelowApp()],
  'src/open-copy.ts': ['src/settings', 'src/crm', ...allBelowApp()],
  'src/deliveries.ts': ['src/settings', 'src/version.ts', ...allBelowApp()],
  'src/version.ts': [],

  // What stands in for other people's systems when none is configured; nothing else in src knows the simulators.
  'src/embedded': ['simulators', 'src/settings', 'src/secrets/secrets-manager.ts', 'src/base'],
  // Parts get their section of the settings whole; its type follows from the table.
  'src/settings': ['src/base'],

  // The HTTP face.
  'src/api': [
    'src/handoff',
    'src/reservations',
    'src/resources',
    'src/consumers',
    'src/audit',
    'src/activity',
    'src/console',
    'src/rate-limits',
    'src/idempotency',
    'src/webhooks',
    'src/changes',
    'src/webhook-endpoints',
    'src/http/connections.ts',
    // The key of the cursors.
    'src/secrets/key-set.ts',
    'src/observability',
    'src/version.ts',
    'src/settings/table.ts',
    'src/base',
  ],

  // The domain.
  'src/handoff': [
    'src/resources',
    'src/changes/event-log.ts',
    'src/idempotency/batcher.ts',
    ...storePort,
    'src/observability',
    'src/base',
  ],
  'src/consumers': [
    'src/audit/attempt.ts',
    'src/audit/audit-event.ts',
    'src/audit/audit-event-archive.ts',
    'src/secrets/secrets-manager.ts',
    'src/secrets/key-set.ts',
    'src/cache/shared-cache.ts',
    'src/observability',
    'src/base',
  ],
  'src/audit': [...storePort, 'src/observability', 'src/base'],
  'src/activity': ['src/cache/shared-cache.ts', 'src/observability', 'src/base'],
  // The files that a browser gets; it imports none of them.
  'src/console': [],
  'src/rate-limits': ['src/cache/shared-cache.ts', 'src/observability', 'src/base'],
  'src/idempotency': [...storePort, 'src/observability', 'src/base'],
  'src/resources': ['src/base'],
  'src/reservations': [
    'src/connectors/connector.ts',
    'src/resources',
    'src/idempotency',
    // Where the events of a reservation are added.
    'src/changes/event-log.ts',
    ...storePort,
    'src/observability',
    'src/base',
  ],
  'src/member-cache': ['src/resources', 'src/cache/shared-cache.ts', 'src/observability', 'src/base'],
  'src/copy': [
    'src/resources',
    'src/changes/keeper.ts',
    'src/idempotency/batcher.ts',
    ...storePort,
    'src/observability',
    'src/base',
  ],
  'src/webhook-endpoints': [
    'src/changes',
    'src/consumers',
    'src/http',
    'src/secrets/secrets-manager.ts',
    ...storePort,
    'src/observability',
    'src/base',
  ],
  'src/webhooks': ['src/secrets/secrets-manager.ts', ...storePort, 'src/observability', 'src/base'],
  'src/changes': ['src/resources', ...storePort, 'src/observability', 'src/base'],

  // The systems that unified resources span: the port, and one folder for each.
  'src/connectors': [
    'src/http',
    'src/settings/table.ts',
    'src/secrets/secrets-manager.ts',
    'src/resources',
    'src/observability',
    'src/base',
  ],

  // HTTP both ways: calls to other systems, and what connections to our own servers may cost.
  'src/http': ['src/base'],

  // The CRM, which implements the records of resources/.
  'src/crm': [
    'src/http',
    'src/settings/table.ts',
    'src/resources',
    'src/cache/shared-cache.ts',
    'src/secrets/secrets-manager.ts',
    'src/observability',
    'src/base',
  ],

  // Ports, each with its adapters.
  'src/secrets': ['src/settings/table.ts', 'src/observability', 'src/base'],
  'src/cache': ['src/secrets/key-set.ts', 'src/secrets/secrets-manager.ts', 'src/observability', 'src/base'],
  'src/store': ['src/observability', 'src/base'],
  'src/jobs': ['src/store/database.ts', 'src/observability', 'src/base'],

  'src/observability': ['src/http/connections.ts', 'src/base'],
  'src/base': [],

  // Outside the service. The simulators are what it is tested against: shared code would prove nothing.
  'simulators/shared': [],
  'simulators/salesforce': ['simulators/shared'],
  'simulators/dining': ['simulators/shared'],
  salesforce: [],

  // What runs in a browser: nothing of the server's.
  console: [],
};

/** Where each package may be imported in src and simulators; one that is not named here may not be imported there. */
export const packageHomes: Record<string, readonly string[]> = {
  commander: ['src/cli'],
  fastify: ['src/api'],
  '@scalar/fastify-api-reference': ['src/api/openapi'],
  undici: ['src/http', 'src/secrets/vault-http.ts'],
  jose: ['src/crm', 'simulators/salesforce'],
  '@aws-sdk/client-secrets-manager': ['src/secrets'],
  ioredis: ['src/cache/redis.ts', 'src/cache/redis-subscriber.ts'],
  'pg-boss': ['src/jobs'],
  pg: ['src/store'],
  '@electric-sql/pglite': ['src/store'],
  // Each module writes the queries for its own tables.
  kysely: [
    'src/store',
    'src/idempotency',
    'src/audit',
    'src/reservations',
    'src/handoff',
    'src/webhooks',
    'src/webhook-endpoints',
    'src/changes',
    'src/copy',
  ],
  pino: ['src/observability'],
  'prom-client': ['src/observability'],
  // One module, loaded only where traces are exported.
  '@opentelemetry/api': ['src/observability/otlp-tracing.ts'],
  '@opentelemetry/exporter-trace-otlp-http': ['src/observability/otlp-tracing.ts'],
  '@opentelemetry/exporter-trace-otlp-proto': ['src/observability/otlp-tracing.ts'],
  '@opentelemetry/resources': ['src/observability/otlp-tracing.ts'],
  '@opentelemetry/sdk-trace': ['src/observability/otlp-tracing.ts'],
  typebox: ['src'],
  leven: ['src/settings', 'src/api/pipeline/unknown-path.ts'],
  // The modules of the browser; the server finds their files.
  '@handoff-gateway/client': ['console'],
  preact: ['console', 'src/console/console-files.ts'],
  htm: ['console', 'src/console/console-files.ts'],
  'ipaddr.js': ['src/base/networks.ts'],
  '@jetstreamapp/soql-parser-js': ['simulators/salesforce'],
  'fast-xml-parser': ['simulators/salesforce'],
};

function allBelowApp(): string[] {
  const domain = [
    'src/handoff',
    'src/reservations',
    'src/consumers',
    'src/audit',
    'src/activity',
    'src/console',
    'src/rate-limits',
    'src/idempotency',
    'src/resources',
    'src/member-cache',
    'src/webhooks',
    'src/webhook-endpoints',
    'src/changes',
    'src/copy',
  ];
  const ports = ['src/secrets', 'src/cache', 'src/store', 'src/jobs', 'src/connectors'];
  return [...domain, ...ports, 'src/http/connections.ts', 'src/observability', 'src/base'];
}
