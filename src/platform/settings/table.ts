import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import {
  days,
  hours,
  httpUrl,
  like,
  oneOf,
  port,
  type Setting,
  seconds,
  secretName,
  setting,
  text,
  withoutLastSlash,
} from './setting.ts';

const vaultPath = like(
  '^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$',
  'a path such as team/secret, without a slash at either end',
  500,
);

export const platformSettings = {
  host: setting('HOST', text, '127.0.0.1', 'Address to listen on.'),
  port: setting('PORT', port, 8080, 'Port of the API; 0 takes any free one.'),
  publicUrl: setting(
    'PUBLIC_URL',
    like('^https?://[^\\s/?#@]+/?$', 'an https:// or http:// URL without a path'),
    undefined,
    'Address at which clients reach the API, and issuer of access tokens, for which production needs it; defaults to `http://<host>:<port>`.',
    { normalize: withoutLastSlash },
  ),
  metricsHost: setting(
    'METRICS_HOST',
    text,
    ({ host }) => host,
    'Address of the metrics port; defaults to `host`.',
  ),
  metricsPort: setting(
    'METRICS_PORT',
    port,
    9464,
    'Port of `/metrics`, `/livez` and `/readyz`; 0 turns it off.',
  ),
  dataDir: setting('DATA_DIR', text, '.data', 'Folder for everything embedded; only one process can use it.'),
  environment: setting(
    'HANDOFF_ENVIRONMENT',
    oneOf('dev', 'staging', 'prod'),
    'dev',
    'Which environment of Salesforce this is.',
  ),
  databaseUrl: setting(
    'DATABASE_URL',
    like('^postgres(ql)?://\\S+$', 'a URL such as postgres://user:password@host:5432/handoff'),
    undefined,
    'PostgreSQL; defaults to PGlite in `dataDir`.',
    { secret: true },
  ),
  redisUrl: setting(
    'REDIS_URL',
    like('^redis[a-z+-]*://\\S+$', 'a URL such as redis://host:6379'),
    undefined,
    'One Redis server, with TLS `rediss://`; defaults to a cache in memory.',
    { secret: true },
  ),
  workers: setting(
    'WORKERS',
    Type.Union([Type.Integer({ minimum: 1, maximum: 64 }), Type.Literal('auto')], {
      description: 'a whole number from 1 to 64, or auto',
    }),
    1,
    'Worker processes on one port; `auto` starts one for each processor. More than one need `databaseUrl` and `redisUrl`.',
  ),
  maxConnections: setting(
    'MAX_CONNECTIONS',
    Type.Integer({ minimum: 1, maximum: 1_000_000 }),
    10_000,
    'Connections to the API at once, for each replica; beyond it a new one replaces an idle one.',
  ),
  trustProxies: setting(
    'TRUST_PROXIES',
    Type.Array(text, { maxItems: 64 }),
    [] as string[],
    'Addresses or networks whose `X-Forwarded-For` counts.',
  ),
  secretsManager: setting(
    'SECRETS_MANAGER',
    oneOf('file', 'vault', 'aws'),
    'file',
    'Where the gateway keeps secrets. See secrets-managers.md.',
  ),
  secretsDir: setting(
    'SECRETS_DIR',
    text,
    ({ dataDir }) => join(dataDir, 'secrets'),
    'Folder of secrets in files; defaults to `<dataDir>/secrets`.',
  ),
  'vault.address': setting(
    'VAULT_ADDR',
    httpUrl,
    undefined,
    'Such as `https://vault.example.com:8200`; needed with `vault`.',
    { normalize: withoutLastSlash, secret: true, onlyWith: 'vault' },
  ),
  'vault.token': setting(
    'VAULT_TOKEN',
    // Anything else could not be sent in a header.
    like('^[\\x21-\\x7e]+$', 'a token of printable ASCII characters'),
    undefined,
    'Token for Vault; this or `vault.kubernetesRole`.',
    { secret: true, onlyWith: 'vault' },
  ),
  'vault.kubernetesRole': setting(
    'VAULT_K8S_ROLE',
    text,
    undefined,
    "Role to sign in as with the pod's service account.",
    { onlyWith: 'vault' },
  ),
  'vault.kubernetesMount': setting(
    'VAULT_K8S_MOUNT',
    vaultPath,
    'kubernetes',
    'Mount of the Kubernetes auth method.',
    { onlyWith: 'vault' },
  ),
  'vault.kubernetesTokenFile': setting(
    'VAULT_K8S_TOKEN_FILE',
    text,
    '/var/run/secrets/kubernetes.io/serviceaccount/token',
    "The service account's token.",
    { onlyWith: 'vault' },
  ),
  'vault.mount': setting('VAULT_MOUNT', vaultPath, 'secret', 'Mount of the KV engine.', {
    onlyWith: 'vault',
  }),
  'vault.prefix': setting('VAULT_PREFIX', vaultPath, 'handoff-gateway', "Folder of the gateway's secrets.", {
    onlyWith: 'vault',
  }),
  'vault.namespace': setting(
    'VAULT_NAMESPACE',
    like('^[\\x21-\\x7e]+$', 'the path of a namespace', 500),
    undefined,
    'Sent as `X-Vault-Namespace` (Vault Enterprise).',
    { onlyWith: 'vault' },
  ),
  'vault.caFile': setting(
    'VAULT_CACERT',
    text,
    undefined,
    "Vault's certificate authorities, PEM; defaults to the system's.",
    { onlyWith: 'vault' },
  ),
  'aws.prefix': setting(
    'AWS_SECRETS_PREFIX',
    like('^[A-Za-z0-9/_+=.@-]{1,200}$', 'a name of 1 to 200 characters of A-Z, a-z, 0-9 and /_+=.@-'),
    'handoff-gateway/',
    "Prefix of the gateway's secrets.",
    { onlyWith: 'aws' },
  ),
  'aws.region': setting(
    'AWS_REGION',
    text,
    undefined,
    'Region; needed with `aws`, unless `AWS_PROFILE` or `AWS_CONFIG_FILE` is set.',
    { onlyWith: 'aws' },
  ),
  secretsRefreshSeconds: setting(
    'SECRETS_REFRESH_SECONDS',
    seconds(1, 3600),
    30,
    'How often the gateway rereads all secrets.',
  ),
  graceWindowHours: setting('GRACE_WINDOW_HOURS', hours, 24, 'How long a rotated pair stays valid.'),
  'crm.name': setting(
    'CRM_NAME',
    like('^\\S(?:[^\\t\\r\\n]*\\S)?$', 'a name of 1 to 40 characters on one line', 40),
    'Salesforce',
    "The CRM's name in the console, the terminal and the command line.",
  ),
  'crm.loginUrl': setting(
    'CRM_LOGIN_URL',
    httpUrl,
    undefined,
    "The org's My Domain address; defaults to the simulated org.",
    { normalize: withoutLastSlash },
  ),
  'crm.simulatedOrg': setting(
    'SIMULATED_ORG',
    text,
    'default',
    'Simulated org: a name in `simulators/salesforce/orgs`, or a file.',
  ),
  'crm.audience': setting(
    'CRM_AUDIENCE',
    text,
    (earlier) => earlier['crm.loginUrl'],
    '`aud` of the JWT that asks for a token; defaults to `crm.loginUrl`.',
  ),
  'crm.clientId': setting('CRM_CLIENT_ID', text, undefined, 'Consumer key of the app.'),
  'crm.username': setting('CRM_USERNAME', text, undefined, 'User name of the integration user.'),
  'crm.privateKeySecret': setting(
    'CRM_PRIVATE_KEY_SECRET',
    secretName,
    ({ environment }) => `crm/${environment}/private-key`,
    'Secret with the private key (PEM); defaults to `crm/<environment>/private-key`.',
  ),
  'crm.apiVersion': setting(
    'CRM_API_VERSION',
    like('^v?[0-9]{2,3}\\.0$', 'a version such as 68.0', 6),
    '68.0',
    "Version of Salesforce's API.",
    { normalize: (version) => version.replace(/^v/, '') },
  ),
  'crm.duplicateRules': setting(
    'CRM_DUPLICATE_RULES',
    oneOf('obey', 'allow'),
    'obey',
    '`allow` saves records that a duplicate rule only warns about.',
  ),
  'crm.mappingFile': setting(
    'CRM_MAPPING_FILE',
    text,
    undefined,
    "File with the org's names of objects and fields; defaults to the package's. See mapping.md.",
  ),
  'crm.ownerMatch': setting(
    'CRM_OWNER_MATCH',
    oneOf('Email', 'Username', 'FederationIdentifier'),
    undefined,
    'Without a mapping file, the User field that identifies who acts and then owns new quotes and bookings; without it, the integration user owns them. See mapping.md.',
  ),
  'crm.ownerVerifiedOnly': setting(
    'CRM_OWNER_VERIFIED_ONLY',
    Type.Boolean(),
    false,
    'Only people who have signed in own records, not those that `X-Actor` names.',
  ),
  'crm.tokenLifetimeSeconds': setting(
    'CRM_TOKEN_LIFETIME_SECONDS',
    seconds(600, 86_400),
    7200,
    "The integration user's session timeout.",
  ),
  'crm.timeoutMs': setting(
    'CRM_TIMEOUT_MS',
    Type.Integer({ minimum: 100, maximum: 20_000 }),
    10_000,
    "Longest wait for Salesforce's answer.",
  ),
  'crm.maxConcurrency': setting(
    'CRM_MAX_CONCURRENCY',
    Type.Integer({ minimum: 1, maximum: 1000 }),
    20,
    'Concurrent calls to Salesforce, for each replica.',
  ),
  'crm.quotaReserve': setting(
    'CRM_QUOTA_RESERVE',
    Type.Integer({ minimum: 0 }),
    0,
    'With fewer daily calls left, only writes pass.',
  ),
  'crm.dailyCallBudget': setting(
    'CRM_DAILY_CALL_BUDGET',
    Type.Integer({ minimum: 1, maximum: 2_147_483_647 }),
    undefined,
    'Calls to Salesforce in 24 hours, for all replicas. See crm-calls.md.',
  ),
  'crm.maxWaitMs': setting(
    'CRM_MAX_WAIT_MS',
    Type.Integer({ minimum: 0, maximum: 20_000 }),
    2000,
    'With a budget, the longest that a request waits for a call.',
  ),
  idempotencyRetentionHours: setting(
    'IDEMPOTENCY_RETENTION_HOURS',
    Type.Number({ exclusiveMinimum: 0, maximum: 8760 }),
    24,
    'How long the gateway keeps the answer to a write with an Idempotency-Key.',
  ),
  auditRetentionDays: setting(
    'AUDIT_RETENTION_DAYS',
    days,
    90,
    "How long the gateway keeps consumers' attempts and changes.",
  ),
  'rateLimit.perMinute': setting(
    'RATE_LIMIT_PER_MINUTE',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    6000,
    'Requests a minute for each consumer; 0 turns it off.',
  ),
  'rateLimit.failedPerMinute': setting(
    'RATE_LIMIT_FAILED_PER_MINUTE',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    6000,
    'Failed authentications a minute for each address; 0 turns it off.',
  ),
  'rateLimit.publicPerMinute': setting(
    'RATE_LIMIT_PUBLIC_PER_MINUTE',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    6000,
    'Requests without credentials or signature a minute for each address; 0 turns it off.',
  ),
  'tls.certFile': setting(
    'TLS_CERT_FILE',
    text,
    undefined,
    "The API port's certificate chain (PEM); turns on TLS. See mutual-tls.md.",
  ),
  'tls.keyFile': setting('TLS_KEY_FILE', text, undefined, 'Its private key (PEM).'),
  'tls.clientCaFile': setting(
    'TLS_CLIENT_CA_FILE',
    text,
    undefined,
    'Authorities of client certificates (PEM).',
  ),
  'tls.clientAuth': setting(
    'TLS_CLIENT_AUTH',
    oneOf('optional', 'required'),
    undefined,
    'Whether clients may present a certificate, or must.',
  ),
  drainSeconds: setting(
    'DRAIN_SECONDS',
    seconds(0, 300),
    ({ production }) => (production ? 5 : 0),
    'How long the gateway accepts new requests after a stop signal; defaults to 5 in production, 0 elsewhere.',
  ),
  shutdownSeconds: setting(
    'SHUTDOWN_SECONDS',
    seconds(1, 600),
    25,
    'Longest time from a stop signal until the process ends.',
  ),
  logLevel: setting(
    'LOG_LEVEL',
    oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    'info',
    'Lowest level to log.',
  ),
} satisfies Record<string, Setting>;

export type SettingsTable = Record<string, Setting>;

export interface SettingsPart {
  table: SettingsTable;
  check?(read: Read): string[];
}

export interface Read<T extends SettingsTable = SettingsTable> {
  raw: { readonly [K in keyof T]: Static<T[K]['schema']> | undefined };
  set: ReadonlySet<string>;
  env: NodeJS.ProcessEnv;
  production: boolean;
  named(key: string): string;
}

type Value<T extends SettingsTable, K extends keyof T> =
  T[K] extends Setting<infer S, infer D> ? Static<S> | D : never;

type TopLevel<K> = K extends `${infer Prefix}.${string}` ? Prefix : K;

type Section<T extends SettingsTable, Prefix> = {
  readonly [K in keyof T as K extends `${Prefix & string}.${infer Name}` ? Name : never]: Value<T, K>;
};

/** Settings ready for use, a section for each prefix: `crm.loginUrl` is `settings.crm.loginUrl`. Frozen. */
export type SettingsOf<T extends SettingsTable> = {
  readonly [K in TopLevel<keyof T> & string]: K extends keyof T ? Value<T, K> : Section<T, K>;
};

export type Settings = SettingsOf<typeof platformSettings> & {
  readonly production: boolean;
};

/** A section whose connection is configured: nothing of it is missing. */
export type Complete<S> = { readonly [K in keyof S]: Exclude<S[K], undefined> };

export type CrmSettings = Complete<
  Omit<Settings['crm'], 'dailyCallBudget' | 'mappingFile' | 'name' | 'ownerMatch' | 'simulatedOrg'>
> &
  Pick<Settings['crm'], 'dailyCallBudget'>;

export type TlsSettings = Complete<Pick<Settings['tls'], 'certFile' | 'keyFile'>> &
  Partial<Pick<Settings['tls'], 'clientCaFile' | 'clientAuth'>>;
