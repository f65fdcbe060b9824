import { join } from 'node:path';
import { type Static, type TSchema, Type } from 'typebox';

/** One row of the table: everything that is known of a setting stands here and nowhere else. */
export interface Setting<S extends TSchema = TSchema, D = string | number | readonly string[] | undefined> {
  /** Environment variable that overrides the configuration file. */
  env: string;
  /** Its `description` says what is allowed, where type and bounds do not. */
  schema: S;
  /** Value when nothing is set, or how it follows from settings above it; undefined: there is none. */
  fallback: D | ((earlier: Earlier) => D);
  /** What it does, for the reference page; with the default in words where that follows from other settings. */
  doc: string;
  /** The value as the service uses it. */
  normalize?: (value: Static<S>) => Static<S>;
  /** The value may hold a password: never printed. */
  secret?: true;
  /** Read only with this secrets manager: elsewhere the variable belongs to other programs. */
  onlyWith?: 'vault' | 'aws';
}

/** What the defaults of later settings may follow from. */
export interface Earlier {
  production: boolean;
  host: string;
  dataDir: string;
  environment: string;
  'crm.loginUrl': string | undefined;
}

type Rest<S extends TSchema> = Pick<Setting<S>, 'normalize' | 'secret' | 'onlyWith'>;

function setting<S extends TSchema, D extends Static<S> | undefined>(
  env: string,
  schema: S,
  fallback: D | ((earlier: Earlier) => D),
  doc: string,
  rest: Rest<S> = {},
): Setting<S, D> {
  return { env, schema, fallback, doc, ...rest };
}

const text = Type.String({ minLength: 1, maxLength: 2048, description: 'a text that is not empty' });
const like = (pattern: string, description: string, maxLength = 2048) =>
  Type.String({ pattern, maxLength, description });
const httpUrl = like('^https?://[^\\s/?#]+[^\\s?#]*$', 'an http:// or https:// URL without a query');
const path = '[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*';
const secretName = like(
  '^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$',
  'a name of letters, digits, dots, dashes and underscores, with slashes between its parts',
  200,
);
const vaultPath = like(`^${path}$`, 'a path such as team/secret, without a slash at either end', 500);
const port = Type.Integer({ minimum: 0, maximum: 65_535 });
const hours = Type.Number({ minimum: 0, maximum: 8760 });
const days = Type.Number({ minimum: 1, maximum: 3650 });
const seconds = (minimum: number, maximum: number) => Type.Number({ minimum, maximum });
const oneOf = <T extends string[]>(...values: [...T]) => Type.Enum(values);
const withoutLastSlash = (url: string) => url.replace(/\/+$/, '');

export const settingsTable = {
  host: setting('HOST', text, '127.0.0.1', 'Address to listen on.'),
  port: setting('PORT', port, 8080, 'Port of the API; 0 takes any free one.'),
  metricsHost: setting(
    'METRICS_HOST',
    text,
    ({ host }) => host,
    'Address of the metrics port; `host` when not set.',
  ),
  metricsPort: setting(
    'METRICS_PORT',
    port,
    9464,
    'Port of `/metrics`, `/livez` and `/readyz`, which are never served on the API port; 0 turns it off.',
  ),
  dataDir: setting(
    'DATA_DIR',
    text,
    '.data',
    'Folder of everything embedded. One process at a time uses it.',
  ),
  environment: setting(
    'HANDOFF_ENVIRONMENT',
    oneOf('dev', 'staging', 'prod'),
    'dev',
    'Which CRM environment this is: `dev`, `staging` or `prod`.',
  ),
  databaseUrl: setting(
    'DATABASE_URL',
    like('^postgres(ql)?://\\S+$', 'a URL such as postgres://user:password@host:5432/handoff'),
    undefined,
    'PostgreSQL; when not set, PGlite in `dataDir`.',
    { secret: true },
  ),
  redisUrl: setting(
    'REDIS_URL',
    like('^redis[a-z+-]*://\\S+$', 'a URL such as redis://host:6379'),
    undefined,
    'Redis, `redis://` or `rediss://`, one server; when not set, a cache in the process.',
    { secret: true },
  ),
  workers: setting(
    'WORKERS',
    Type.Integer({ minimum: 1, maximum: 64 }),
    1,
    'Worker processes on one port, each of them a replica. More than one need `databaseUrl` and `redisUrl`.',
  ),
  maxConnections: setting(
    'MAX_CONNECTIONS',
    Type.Integer({ minimum: 1, maximum: 1_000_000 }),
    10_000,
    'Connections to the API at once, for each replica; further ones are closed unanswered.',
  ),
  trustProxies: setting(
    'TRUST_PROXIES',
    Type.Array(text, { maxItems: 64 }),
    [] as string[],
    'Addresses or networks (comma separated) whose `X-Forwarded-For` counts.',
  ),
  secretsManager: setting(
    'SECRETS_MANAGER',
    oneOf('file', 'vault', 'aws'),
    'file',
    'Where secrets come from. `vault` and `aws` have settings of their own: see secrets-managers.md.',
  ),
  secretsDir: setting(
    'SECRETS_DIR',
    text,
    ({ dataDir }) => join(dataDir, 'secrets'),
    'Folder of the file secrets manager, one file a secret; `<dataDir>/secrets` when not set.',
  ),
  'vault.address': setting(
    'VAULT_ADDR',
    httpUrl,
    undefined,
    'Vault, such as `https://vault.example.com:8200`. Needed with `vault`.',
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
    "Role to sign in to Vault as, with the pod's service account.",
    { onlyWith: 'vault' },
  ),
  'vault.kubernetesMount': setting(
    'VAULT_K8S_MOUNT',
    vaultPath,
    'kubernetes',
    'Where the Kubernetes auth method is mounted.',
    { onlyWith: 'vault' },
  ),
  'vault.kubernetesTokenFile': setting(
    'VAULT_K8S_TOKEN_FILE',
    text,
    '/var/run/secrets/kubernetes.io/serviceaccount/token',
    "File with the service account's token; read at each sign-in.",
    { onlyWith: 'vault' },
  ),
  'vault.mount': setting('VAULT_MOUNT', vaultPath, 'secret', 'Where the KV engine (version 2) is mounted.', {
    onlyWith: 'vault',
  }),
  'vault.prefix': setting(
    'VAULT_PREFIX',
    vaultPath,
    'handoff-gateway',
    'Folder in Vault of everything that belongs to the gateway.',
    { onlyWith: 'vault' },
  ),
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
    "File with the certificate authorities for Vault, PEM; the system's when not set. Read at start.",
    { onlyWith: 'vault' },
  ),
  'aws.prefix': setting(
    'AWS_SECRETS_PREFIX',
    like('^[A-Za-z0-9/_+=.@-]{1,200}$', 'a name of 1 to 200 characters of A-Z, a-z, 0-9 and /_+=.@-'),
    'handoff-gateway/',
    'What the names of all secrets of the gateway begin with.',
    { onlyWith: 'aws' },
  ),
  'aws.region': setting(
    'AWS_REGION',
    text,
    undefined,
    'Region of the secrets; needed with `aws`, unless `AWS_PROFILE` or `AWS_CONFIG_FILE` is set. ' +
      "All other variables of the AWS SDK are the SDK's own.",
    { onlyWith: 'aws' },
  ),
  secretsRefreshSeconds: setting(
    'SECRETS_REFRESH_SECONDS',
    seconds(1, 3600),
    30,
    'How often everything that came from the secrets manager is read again.',
  ),
  graceWindowHours: setting('GRACE_WINDOW_HOURS', hours, 24, 'How long a rotated pair stays valid.'),
  'crm.loginUrl': setting(
    'CRM_LOGIN_URL',
    httpUrl,
    undefined,
    'Login host of the CRM; the token endpoint is `<loginUrl>/services/oauth2/token`. The simulator when not set.',
    { normalize: withoutLastSlash },
  ),
  'crm.audience': setting(
    'CRM_AUDIENCE',
    text,
    (earlier) => earlier['crm.loginUrl'],
    '`aud` of the JWT that asks for a token; `crm.loginUrl` when not set.',
  ),
  'crm.clientId': setting('CRM_CLIENT_ID', text, undefined, 'Consumer key of the external client app.'),
  'crm.username': setting('CRM_USERNAME', text, undefined, 'User name of the integration user.'),
  'crm.privateKeySecret': setting(
    'CRM_PRIVATE_KEY_SECRET',
    secretName,
    ({ environment }) => `crm/${environment}/private-key`,
    'Name of the secret that holds the private key (PEM); `crm/<environment>/private-key` when not set.',
  ),
  'crm.apiVersion': setting(
    'CRM_API_VERSION',
    like('^v?[0-9]{2,3}\\.0$', 'a version such as 68.0', 6),
    '68.0',
    'Version of the CRM API.',
    { normalize: (version) => version.replace(/^v/, '') },
  ),
  'crm.tokenLifetimeSeconds': setting(
    'CRM_TOKEN_LIFETIME_SECONDS',
    seconds(600, 86_400),
    7200,
    'Lifetime of an access token that names none itself; the session timeout of the org or the app.',
  ),
  'crm.timeoutMs': setting(
    'CRM_TIMEOUT_MS',
    Type.Integer({ minimum: 100, maximum: 20_000 }),
    10_000,
    'Longest wait for one answer of the CRM, in milliseconds.',
  ),
  'crm.maxConcurrency': setting(
    'CRM_MAX_CONCURRENCY',
    Type.Integer({ minimum: 1, maximum: 1000 }),
    20,
    'Calls to the CRM in flight at once, for each replica.',
  ),
  'crm.quotaReserve': setting(
    'CRM_QUOTA_RESERVE',
    Type.Integer({ minimum: 0 }),
    0,
    'Remaining daily calls below which only writes pass.',
  ),
  'dining.baseUrl': setting(
    'DINING_BASE_URL',
    httpUrl,
    undefined,
    'Booking server of the dining partner; `/v3/…` follows it. The simulator when not set, and in production no reservations.',
    { normalize: withoutLastSlash },
  ),
  'dining.username': setting('DINING_USERNAME', text, undefined, 'User name at the dining partner.'),
  'dining.passwordSecret': setting(
    'DINING_PASSWORD_SECRET',
    secretName,
    ({ environment }) => `dining/${environment}/password`,
    'Name of the secret that holds the password; `dining/<environment>/password` when not set.',
  ),
  idempotencyRetentionHours: setting(
    'IDEMPOTENCY_RETENTION_HOURS',
    Type.Number({ exclusiveMinimum: 0, maximum: 8760 }),
    24,
    'How long the result of a keyed write is kept, from its completion.',
  ),
  auditRetentionDays: setting('AUDIT_RETENTION_DAYS', days, 90, 'How long authentication attempts are kept.'),
  webhookRetentionDays: setting(
    'WEBHOOK_RETENTION_DAYS',
    days,
    30,
    'How long received webhooks are kept; a repeat is recognised for so long.',
  ),
  reservationRetentionDays: setting(
    'RESERVATION_RETENTION_DAYS',
    Type.Number({ exclusiveMinimum: 0, maximum: 3650 }),
    90,
    "How long the guest's data in a reservation is kept, from the end of the reservation's time.",
  ),
  memberCacheSeconds: setting(
    'MEMBER_CACHE_SECONDS',
    seconds(0, 300),
    300,
    'How long a member that was read may be cached, if no webhook says earlier that it has changed; 0 turns it off.',
  ),
  'rateLimit.perMinute': setting(
    'RATE_LIMIT_PER_MINUTE',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    6000,
    'Requests a minute for each consumer; 0 = off.',
  ),
  'rateLimit.failedPerMinute': setting(
    'RATE_LIMIT_FAILED_PER_MINUTE',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    6000,
    'Failed authentications a minute for each address; 0 = off.',
  ),
  'rateLimit.publicPerMinute': setting(
    'RATE_LIMIT_PUBLIC_PER_MINUTE',
    Type.Integer({ minimum: 0, maximum: 1_000_000_000 }),
    6000,
    'Requests without valid credentials or signature a minute for each address; 0 = off.',
  ),
  'tls.certFile': setting(
    'TLS_CERT_FILE',
    text,
    undefined,
    'Certificate chain of the API port (PEM); with it the port speaks TLS. See mutual-tls.md.',
  ),
  'tls.keyFile': setting('TLS_KEY_FILE', text, undefined, 'Private key of the certificate (PEM).'),
  'tls.clientCaFile': setting(
    'TLS_CLIENT_CA_FILE',
    text,
    undefined,
    'Authorities whose client certificates are accepted (PEM).',
  ),
  'tls.clientAuth': setting(
    'TLS_CLIENT_AUTH',
    oneOf('optional', 'required'),
    undefined,
    'Whether clients are asked for a certificate or need one; they are not asked when not set.',
  ),
  drainSeconds: setting(
    'DRAIN_SECONDS',
    seconds(0, 300),
    ({ production }) => (production ? 5 : 0),
    'After a stop signal, how long new requests are still accepted; 5 in production and 0 elsewhere when not set.',
  ),
  shutdownSeconds: setting(
    'SHUTDOWN_SECONDS',
    seconds(1, 600),
    25,
    'After a stop signal, when the process ends at the latest.',
  ),
  logLevel: setting(
    'LOG_LEVEL',
    oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    'info',
    'Least level that is logged.',
  ),
} satisfies Record<string, Setting>;

type Table = typeof settingsTable;
export type SettingKey = keyof Table;

type Value<K extends SettingKey> = Table[K] extends Setting<infer S, infer D> ? Static<S> | D : never;

/** Settings by key, as the file and the environment have them: undefined where nothing is set. */
export type RawSettings = { [K in SettingKey]: Static<Table[K]['schema']> | undefined };

type TopLevel<K extends string> = K extends `${infer Prefix}.${string}` ? Prefix : K;

/** Settings ready for use, a section for each prefix: `crm.loginUrl` is `settings.crm.loginUrl`. Frozen. */
export type Settings = {
  readonly [K in TopLevel<SettingKey>]: K extends SettingKey ? Value<K> : Section<K>;
} & {
  /** NODE_ENV is `production`. */
  readonly production: boolean;
};

type Section<Prefix extends string> = {
  readonly [K in SettingKey as K extends `${Prefix}.${infer Name}` ? Name : never]: Value<K>;
};

/** A section whose connection is configured: nothing of it is missing. */
type Complete<S> = { readonly [K in keyof S]: Exclude<S[K], undefined> };

/** The settings `crm.*` with an org, real or simulated. */
export type CrmSettings = Complete<Settings['crm']>;

/** The settings `dining.*` with a partner, real or simulated. */
export type DiningSettings = Complete<Settings['dining']>;

/** The settings `tls.*` where the API port speaks TLS. */
export type TlsSettings = Complete<Pick<Settings['tls'], 'certFile' | 'keyFile'>> &
  Partial<Pick<Settings['tls'], 'clientCaFile' | 'clientAuth'>>;
