import { readFileSync } from 'node:fs';
import { isLoopback } from '../base/loopback.ts';
import { isNetwork } from '../base/networks.ts';
import { type RawSettings, type SettingKey, settingsTable } from './table.ts';

const connectionKeys = {
  crm: {
    any: ['crm.loginUrl', 'crm.audience', 'crm.clientId', 'crm.username', 'crm.privateKeySecret'],
    needed: ['crm.loginUrl', 'crm.clientId', 'crm.username'],
  },
  dining: {
    any: ['dining.baseUrl', 'dining.username', 'dining.passwordSecret'],
    needed: ['dining.baseUrl', 'dining.username'],
  },
} as const satisfies Record<string, { any: readonly SettingKey[]; needed: readonly SettingKey[] }>;

/** The settings as they were read, with what else the rules need. */
export interface Read {
  raw: RawSettings;
  /** Keys that are set, to a valid value or not. */
  set: ReadonlySet<SettingKey>;
  env: NodeJS.ProcessEnv;
  production: boolean;
}

/** Faults that only several settings together can have, or that only production has. */
export function checkTogether(read: Read): string[] {
  const { raw, set, production } = read;
  const faults: string[] = [];
  for (const { any, needed } of Object.values(connectionKeys)) {
    const first = any.find((key) => set.has(key));
    if (first === undefined) continue;
    for (const key of needed) {
      if (!set.has(key)) faults.push(`${named(key)} is missing: ${first} is set, and they belong together`);
    }
  }
  faults.push(...checkRedis(raw.redisUrl), ...checkTls(set), ...checkWorkers(raw, set));
  faults.push(...checkNetworks(raw), ...checkCopy(raw));
  if (raw.secretsManager === 'vault') faults.push(...checkVault(read));
  if (raw.secretsManager === 'aws') faults.push(...checkAws(read));
  if (production) faults.push(...checkProduction(raw, set));
  return faults;
}

/** URLs of several servers are refused: to use only one of them would be no failover. */
function checkRedis(url: string | undefined): string[] {
  if (url === undefined || (/^rediss?:/.test(url) && !url.includes(','))) return [];
  const form = 'must be the redis:// or rediss:// URL of one server';
  const advice = 'for Sentinel or a Cluster name an address that always leads to the current primary';
  return [`${named('redisUrl')} ${form}; ${advice}`];
}

/** Any of these without the others would silently leave clients unchecked, or the port without TLS. */
function checkTls(set: ReadonlySet<SettingKey>): string[] {
  const needs: [SettingKey, SettingKey][] = [
    ['tls.certFile', 'tls.keyFile'],
    ['tls.keyFile', 'tls.certFile'],
    ['tls.clientCaFile', 'tls.clientAuth'],
    ['tls.clientAuth', 'tls.clientCaFile'],
    ['tls.clientAuth', 'tls.certFile'],
  ];
  return needs
    .filter(([key, needed]) => set.has(key) && !set.has(needed))
    .map(([key, needed]) => `${named(needed)} is missing: ${key} is set, and they belong together`);
}

/** Embedded parts live in one process. */
function checkWorkers({ workers = 1 }: RawSettings, set: ReadonlySet<SettingKey>): string[] {
  const needed = ['databaseUrl', 'redisUrl'] as const;
  return needed
    .filter((key) => workers > 1 && !set.has(key))
    .map((key) => `${named(key)} is missing: more than one worker (workers) share their state there`);
}

/** What nobody reads cannot be kept. */
function checkCopy(raw: RawSettings): string[] {
  if (raw['copy.enabled'] !== true || raw['changes.pollSeconds'] !== 0) return [];
  return [
    `${named('copy.enabled')} needs ${named('changes.pollSeconds')} over 0: the reader of changes keeps the copy`,
  ];
}

/** One that is misspelt would open what was not meant, or nothing. */
function checkNetworks({ 'changes.privateNetworks': blocks = [] }: RawSettings): string[] {
  const isNone = blocks.length === 1 && blocks[0] === 'none';
  return blocks
    .filter((block) => !isNone && !isNetwork(block))
    .map((block) => `${named('changes.privateNetworks')}: ${JSON.stringify(block)} is not a CIDR block`);
}

function checkVault({ raw, set, production }: Read): string[] {
  return [
    ...checkVaultAddress(raw['vault.address'], set.has('vault.address'), production),
    ...checkVaultSignIn(set.has('vault.token'), set.has('vault.kubernetesRole')),
    ...checkAuthorities(raw['vault.caFile']),
  ];
}

function checkVaultAddress(address: string | undefined, isSet: boolean, production: boolean): string[] {
  const name = named('vault.address');
  if (!isSet) return [`${name} is missing: the secrets manager is vault`];
  if (address === undefined) return [];
  const url = URL.parse(address);
  if (url === null || url.username + url.password !== '')
    return [`${name} must be a URL such as https://vault.example.com:8200, without a user name`];
  if (production && sendsInTheClear(address))
    return [`${name} must start with https://: the token would travel in the clear`];
  return [];
}

function checkVaultSignIn(hasToken: boolean, hasRole: boolean): string[] {
  if (hasToken !== hasRole) return [];
  const [token, role] = [named('vault.token'), named('vault.kubernetesRole')];
  if (hasToken) return [`${token} and ${role} are both set: leave one of them out`];
  return [`${token} or ${role} is missing: the secrets manager is vault`];
}

function checkAuthorities(file: string | undefined): string[] {
  if (file === undefined) return [];
  try {
    if (readFileSync(file, 'utf8').includes('-----BEGIN CERTIFICATE-----')) return [];
    return [`${named('vault.caFile')}: ${file} holds no certificate in PEM`];
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    return [`${named('vault.caFile')}: ${file} can't be read (${reason})`];
  }
}

/** The SDK would report it at its first call only. A profile may name the region. */
function checkAws({ set, env }: Read): string[] {
  if (set.has('aws.region') || env['AWS_PROFILE'] || env['AWS_CONFIG_FILE']) return [];
  return [`${named('aws.region')} is missing: the secrets manager is aws`];
}

function checkProduction(raw: RawSettings, set: ReadonlySet<SettingKey>): string[] {
  const faults: string[] = [];
  for (const key of ['environment', 'databaseUrl', 'redisUrl'] as const) {
    if (!set.has(key)) faults.push(`${named(key)} is missing: NODE_ENV=production needs it`);
  }
  const noneOfCrm = !connectionKeys.crm.any.some((key) => set.has(key));
  for (const key of noneOfCrm ? connectionKeys.crm.needed : []) {
    faults.push(`${named(key)} is missing: NODE_ENV=production takes no simulated CRM`);
  }
  for (const key of ['crm.loginUrl', 'dining.baseUrl'] as const) {
    const url = raw[key];
    if (url !== undefined && sendsInTheClear(url)) {
      faults.push(`${named(key)} must start with https://: credentials would travel in the clear`);
    }
  }
  return faults;
}

function sendsInTheClear(text: string): boolean {
  const url = URL.parse(text);
  return text.startsWith('http://') && (url === null || !isLoopback(url));
}

function named(key: SettingKey): string {
  return `${key} (${settingsTable[key].env})`;
}
