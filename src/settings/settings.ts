import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkTogether } from './rules.ts';
import { assembleSettings } from './sources.ts';
import { type RawSettings, type SettingKey, settingsTable } from './table.ts';

/** Settings ready for use: every default is filled in, and everything is frozen. */
export interface Settings {
  readonly production: boolean;
  readonly host: string;
  readonly port: number;
  readonly metricsHost: string;
  readonly metricsPort: number;
  readonly dataDir: string;
  readonly environment: 'dev' | 'staging' | 'prod';
  readonly databaseUrl: string | undefined;
  readonly redisUrl: string | undefined;
  readonly workers: number;
  readonly trustProxies: readonly string[];
  readonly secretsManager: 'file' | 'vault' | 'aws';
  readonly secretsDir: string;
  readonly secretsRefreshSeconds: number;
  readonly graceWindowHours: number;
  /** Undefined: the simulated org is started and used. */
  readonly crm: CrmAddress | undefined;
  readonly crmPrivateKeySecret: string;
  readonly crmApiVersion: string;
  readonly crmTokenLifetimeSeconds: number;
  readonly crmTimeoutMs: number;
  readonly crmMaxConcurrency: number;
  readonly crmQuotaReserve: number;
  /** Undefined: the simulated partner is started and used; in production there are no reservations. */
  readonly dining: DiningAddress | undefined;
  readonly diningPasswordSecret: string;
  readonly idempotencyRetentionHours: number;
  readonly auditRetentionDays: number;
  readonly webhookRetentionDays: number;
  readonly memberCacheSeconds: number;
  readonly rateLimitPerMinute: number;
  readonly rateLimitFailedPerMinute: number;
  /** Undefined: the API port speaks plain HTTP. */
  readonly tls: TlsFiles | undefined;
  readonly drainSeconds: number;
  readonly shutdownSeconds: number;
  readonly logLevel: NonNullable<RawSettings['logLevel']>;
}

/** The files of TLS on the API port. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** Undefined: clients are not asked for a certificate. */
  readonly clients: { readonly caFile: string; readonly auth: 'optional' | 'required' } | undefined;
}

/** Where the CRM is and as whom the gateway signs in. */
export interface CrmAddress {
  readonly loginUrl: string;
  readonly audience: string;
  readonly clientId: string;
  readonly username: string;
}

/** Where the dining partner's booking server is, and as whom the gateway calls it. */
export interface DiningAddress {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly username: string;
}

/** Everything that is wrong with the settings, one line a fault. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The settings are not valid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

const defaultConfigFile = 'handoff.config.json';

/**
 * Reads the configuration file (if there is one, or if it was named) and the environment, checks everything, and
 * throws a `SettingsError` that names every fault at once.
 */
export function loadSettings(env: NodeJS.ProcessEnv = process.env, configFile?: string): Settings {
  const production = env['NODE_ENV'] === 'production';
  const { raw, set, faults } = assembleSettings(readConfigFile(configFile), env);
  const all = [...faults, ...checkTogether(raw, set, production)];
  if (all.length > 0) throw new SettingsError(all);
  return Object.freeze(fillIn(raw, production));
}

function readConfigFile(named: string | undefined): unknown {
  const path = named ?? defaultConfigFile;
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (named === undefined && (error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new SettingsError([`${path} can't be read: ${(error as Error).message}`]);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SettingsError([`${path} is not JSON: ${(error as Error).message}`]);
  }
}

function fillIn(raw: RawSettings, production: boolean): Settings {
  const value = <K extends SettingKey>(key: K) =>
    (raw[key] ?? settingsTable[key].fallback) as NonNullable<RawSettings[K]>;
  const environment = value('environment');
  const dataDir = value('dataDir');
  return {
    production,
    host: value('host'),
    port: value('port'),
    metricsHost: raw.metricsHost ?? value('host'),
    metricsPort: value('metricsPort'),
    dataDir,
    environment,
    databaseUrl: raw.databaseUrl,
    redisUrl: raw.redisUrl,
    workers: value('workers'),
    trustProxies: value('trustProxies'),
    secretsManager: value('secretsManager'),
    secretsDir: raw.secretsDir ?? join(dataDir, 'secrets'),
    secretsRefreshSeconds: value('secretsRefreshSeconds'),
    graceWindowHours: value('graceWindowHours'),
    crm: crmAddress(raw),
    crmPrivateKeySecret: raw['crm.privateKeySecret'] ?? `crm/${environment}/private-key`,
    crmApiVersion: value('crm.apiVersion').replace(/^v/, ''),
    crmTokenLifetimeSeconds: value('crm.tokenLifetimeSeconds'),
    crmTimeoutMs: value('crm.timeoutMs'),
    crmMaxConcurrency: value('crm.maxConcurrency'),
    crmQuotaReserve: value('crm.quotaReserve'),
    dining: diningAddress(raw),
    diningPasswordSecret: raw['dining.passwordSecret'] ?? `dining/${environment}/password`,
    idempotencyRetentionHours: value('idempotencyRetentionHours'),
    auditRetentionDays: value('auditRetentionDays'),
    webhookRetentionDays: value('webhookRetentionDays'),
    memberCacheSeconds: value('memberCacheSeconds'),
    rateLimitPerMinute: value('rateLimit.perMinute'),
    rateLimitFailedPerMinute: value('rateLimit.failedPerMinute'),
    tls: tlsFiles(raw),
    drainSeconds: raw.drainSeconds ?? (production ? 5 : 0),
    shutdownSeconds: value('shutdownSeconds'),
    logLevel: value('logLevel'),
  };
}

function tlsFiles(raw: RawSettings): TlsFiles | undefined {
  if (raw['tls.certFile'] === undefined) return undefined;
  const auth = raw['tls.clientAuth'];
  return {
    certFile: raw['tls.certFile'],
    keyFile: raw['tls.keyFile'] as string,
    clients: auth && { caFile: raw['tls.clientCaFile'] as string, auth },
  };
}

function crmAddress(raw: RawSettings): CrmAddress | undefined {
  if (raw['crm.loginUrl'] === undefined) return undefined;
  const loginUrl = raw['crm.loginUrl'].replace(/\/+$/, '');
  return {
    loginUrl,
    audience: raw['crm.audience'] ?? loginUrl,
    clientId: raw['crm.clientId'] as string,
    username: raw['crm.username'] as string,
  };
}

function diningAddress(raw: RawSettings): DiningAddress | undefined {
  if (raw['dining.baseUrl'] === undefined) return undefined;
  const baseUrl = raw['dining.baseUrl'].replace(/\/+$/, '');
  return { baseUrl, username: raw['dining.username'] as string };
}
