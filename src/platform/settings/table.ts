import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { secretsManagerSettings } from './secrets-manager-settings.ts';
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
    'Connections to the API at once, for each replica. Beyond that, a new connection replaces one without a request in progress.',
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
  ...secretsManagerSettings,
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
  'crm.dailyCallBudget': setting(
    'CRM_DAILY_CALL_BUDGET',
    Type.Integer({ minimum: 1, maximum: 2_147_483_647 }),
    undefined,
    'Calls to the CRM in 24 hours, for all replicas together; no budget when not set. See crm-calls.md.',
  ),
  'crm.maxWaitMs': setting(
    'CRM_MAX_WAIT_MS',
    Type.Integer({ minimum: 0, maximum: 20_000 }),
    2000,
    'With a budget, how long a request waits for a call at most, in milliseconds, before it is refused.',
  ),
  'crm.recordUrl': setting(
    'CRM_RECORD_URL',
    like('^https?://[^\\s{}]+\\{id\\}[^\\s{}]*$', 'an http:// or https:// URL with {id} in it'),
    undefined,
    "Address of a record's page in the CRM, with `{id}` in place of its id, for links of the console; `<instance_url>/{id}` when not set.",
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
  'handoff.whenCrmIsUnavailable': setting(
    'HANDOFF_WHEN_CRM_IS_UNAVAILABLE',
    oneOf('refuse', 'accept'),
    'refuse',
    'What becomes of a hand-off that the CRM is not available for, without `Prefer: respond-async`: `refuse` answers 502, 503 or 504, `accept` stores it and answers 202.',
  ),
  'handoff.queueLimit': setting(
    'HANDOFF_QUEUE_LIMIT',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    100_000,
    'Accepted hand-offs that may wait for the CRM; further ones are refused with 503.',
  ),
  'handoff.queueLimitPerConsumer': setting(
    'HANDOFF_QUEUE_LIMIT_PER_CONSUMER',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    (earlier) => Math.max(1, Math.floor(earlier['handoff.queueLimit'] / 5)),
    'Accepted hand-offs of one consumer that may wait for the CRM; further ones are refused with 503. A fifth of `handoff.queueLimit` when not set.',
  ),
  'handoff.repeatWindowSeconds': setting(
    'HANDOFF_REPEAT_WINDOW_SECONDS',
    seconds(0, 86_400),
    0,
    'For so long a hand-off without Idempotency-Key whose body a consumer sends again counts as a repeat; 0 = off.',
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
  'changes.pollSeconds': setting(
    'CHANGES_POLL_SECONDS',
    seconds(0, 3600),
    (earlier) => (earlier['crm.loginUrl'] === undefined ? 5 : 60),
    'How often changes of records are read from the CRM, with one call; 60, and 5 with the simulator, when not set. 0 turns events off.',
  ),
  'changes.minimumSeconds': setting(
    'CHANGES_MINIMUM_SECONDS',
    seconds(0.1, 3600),
    (earlier) => (earlier['crm.loginUrl'] === undefined ? 2 : 15),
    'How close two such reads may be when the service knows of a change; 15, and 2 with the simulator, when not set.',
  ),
  'changes.retentionDays': setting(
    'CHANGES_RETENTION_DAYS',
    Type.Number({ exclusiveMinimum: 0, maximum: 3650 }),
    30,
    'How long events are kept.',
  ),
  'changes.privateNetworks': setting(
    'CHANGES_PRIVATE_NETWORKS',
    Type.Array(text, { maxItems: 64 }),
    ({ production }) => (production ? [] : ['127.0.0.0/8', '::1/128']),
    'Networks that webhook endpoints may be in although they are not public: CIDR blocks (comma separated), or `none`; ' +
      'the loopback blocks outside production when not set.',
    { normalize: (blocks) => blocks.filter((block) => block !== 'none') },
  ),
  'copy.enabled': setting(
    'COPY_ENABLED',
    Type.Boolean(),
    false,
    'Whether quotes, bookings and members are copied to the database, to answer reads that take an answer of some age. Needs `changes.pollSeconds` over 0; the same for all replicas. See copy.md.',
  ),
  'copy.defaultMaxAgeSeconds': setting(
    'COPY_DEFAULT_MAX_AGE_SECONDS',
    seconds(0, 86_400),
    0,
    'How old the answer to a read without `Cache-Control` may be, where there is a copy; 0 = the CRM is asked.',
  ),
  memberCacheSeconds: setting(
    'MEMBER_CACHE_SECONDS',
    seconds(0, 300),
    300,
    'How long a member that was read may be cached, if no webhook says earlier that it has changed; 0 turns it off. Without effect where `copy.enabled` is true.',
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
  'console.enabled': setting(
    'CONSOLE_ENABLED',
    Type.Boolean(),
    ({ production }) => !production,
    'Whether the console is served at `/console/`; true when not set, in production false. See console.md.',
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
export type CrmSettings = Complete<Omit<Settings['crm'], 'recordUrl' | 'dailyCallBudget'>> &
  Pick<Settings['crm'], 'dailyCallBudget'>;

/** The settings `dining.*` with a partner, real or simulated. */
export type DiningSettings = Complete<Settings['dining']>;

/** The settings `tls.*` where the API port speaks TLS. */
export type TlsSettings = Complete<Pick<Settings['tls'], 'certFile' | 'keyFile'>> &
  Partial<Pick<Settings['tls'], 'clientCaFile' | 'clientAuth'>>;
