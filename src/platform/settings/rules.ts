import { readFileSync } from 'node:fs';
import { isAddressOrNetwork, isLoopback } from '../base/networks.ts';
import { platformSettings, type Read, type SettingsPart } from './table.ts';

type Platform = Read<typeof platformSettings>;

const crmKeys = {
  any: ['crm.loginUrl', 'crm.audience', 'crm.clientId', 'crm.username', 'crm.privateKeySecret'],
  needed: ['crm.loginUrl', 'crm.clientId', 'crm.username'],
};

export const platformPart: SettingsPart = {
  table: platformSettings,
  check(read) {
    const platform = read as Platform;
    const faults = [
      ...checkConnection(read, crmKeys),
      ...checkRedis(platform),
      ...checkTls(platform),
      ...checkWorkers(platform),
      ...checkProxies(platform),
    ];
    if (platform.raw.secretsManager === 'vault') faults.push(...checkVault(platform));
    if (platform.raw.secretsManager === 'aws') faults.push(...checkAws(platform));
    if (platform.production) faults.push(...checkProduction(platform));
    return faults;
  },
};

export function checkConnection(
  { set, named }: Read,
  { any, needed }: { any: readonly string[]; needed: readonly string[] },
): string[] {
  const first = any.find((key) => set.has(key));
  if (first === undefined) return [];
  return needed
    .filter((key) => !set.has(key))
    .map((key) => `${named(key)} is missing: you set ${first}, which needs it`);
}

/** In production credentials travel only under TLS, or inside the machine. */
export function checkEncrypted({ raw, production, named }: Read, key: string): string[] {
  const url = raw[key];
  if (!production || typeof url !== 'string' || !sendsInTheClear(url)) return [];
  return [`${named(key)} must start with https://, or credentials would travel unencrypted`];
}

/** URLs of several servers are refused: to use only one of them would be no failover. */
function checkRedis({ raw: { redisUrl: url }, named }: Platform): string[] {
  if (url === undefined || (/^rediss?:/.test(url) && !url.includes(','))) return [];
  const form = 'must be the redis:// or rediss:// URL of one server';
  const advice = 'for Sentinel or a Cluster, use an address that always leads to the current primary';
  return [`${named('redisUrl')} ${form}; ${advice}`];
}

/** Any of these without the others would silently leave clients unchecked, or the port without TLS. */
function checkTls({ set, named }: Platform): string[] {
  const needs: [string, string][] = [
    ['tls.certFile', 'tls.keyFile'],
    ['tls.keyFile', 'tls.certFile'],
    ['tls.clientCaFile', 'tls.clientAuth'],
    ['tls.clientAuth', 'tls.clientCaFile'],
    ['tls.clientAuth', 'tls.certFile'],
  ];
  return needs
    .filter(([key, needed]) => set.has(key) && !set.has(needed))
    .map(([key, needed]) => `${named(needed)} is missing: you set ${key}, which needs it`);
}

/** Names that Fastify knows for networks. */
const knownNetworks = ['loopback', 'linklocal', 'uniquelocal'];

function checkProxies({ raw: { trustProxies = [] }, named }: Platform): string[] {
  return trustProxies
    .filter((text) => !knownNetworks.includes(text) && !isAddressOrNetwork(text))
    .map((text) => `${named('trustProxies')}: ${JSON.stringify(text)} is no IP address or CIDR block`);
}

function checkWorkers({ raw: { workers = 1 }, set, named }: Platform): string[] {
  const needed = ['databaseUrl', 'redisUrl'] as const;
  return needed
    .filter((key) => workers !== 'auto' && workers > 1 && !set.has(key))
    .map((key) => `${named(key)} is missing: more than one worker (workers) need it to share their state`);
}

function checkVault(read: Platform): string[] {
  return [...checkVaultAddress(read), ...checkVaultSignIn(read), ...checkAuthorities(read)];
}

function checkVaultAddress({ raw, set, production, named }: Platform): string[] {
  const address = raw['vault.address'];
  const name = named('vault.address');
  if (!set.has('vault.address')) return [`${name} is missing: the secrets manager is vault`];
  if (address === undefined) return [];
  const url = URL.parse(address);
  if (url === null || url.username + url.password !== '')
    return [`${name} must be a URL such as https://vault.example.com:8200, without a user name`];
  if (production && sendsInTheClear(address))
    return [`${name} must start with https://, or the token would travel unencrypted`];
  return [];
}

function checkVaultSignIn({ set, named }: Platform): string[] {
  const hasToken = set.has('vault.token');
  const hasRole = set.has('vault.kubernetesRole');
  if (hasToken !== hasRole) return [];
  const [token, role] = [named('vault.token'), named('vault.kubernetesRole')];
  if (hasToken) return [`${token} and ${role} are both set: remove one of them`];
  return [`${token} or ${role} is missing: the secrets manager is vault`];
}

function checkAuthorities({ raw: { 'vault.caFile': file }, named }: Platform): string[] {
  if (file === undefined) return [];
  try {
    if (readFileSync(file, 'utf8').includes('-----BEGIN CERTIFICATE-----')) return [];
    return [`${named('vault.caFile')}: ${file} contains no PEM certificate`];
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    return [`${named('vault.caFile')}: ${file} can't be read (${reason})`];
  }
}

/** The SDK would report it at its first call only. A profile may name the region. */
function checkAws({ set, env, named }: Platform): string[] {
  if (set.has('aws.region') || env['AWS_PROFILE'] || env['AWS_CONFIG_FILE']) return [];
  return [`${named('aws.region')} is missing: the secrets manager is aws`];
}

function checkProduction(read: Platform): string[] {
  const { set, named } = read;
  const faults: string[] = [];
  for (const key of ['environment', 'databaseUrl', 'redisUrl']) {
    if (!set.has(key)) faults.push(`${named(key)} is missing: NODE_ENV=production needs it`);
  }
  const noneOfCrm = !crmKeys.any.some((key) => set.has(key));
  for (const key of noneOfCrm ? crmKeys.needed : []) {
    faults.push(`${named(key)} is missing: NODE_ENV=production doesn't use a simulated org`);
  }
  return [...faults, ...checkEncrypted(read, 'crm.loginUrl'), ...checkEncrypted(read, 'publicUrl')];
}

function sendsInTheClear(text: string): boolean {
  const url = URL.parse(text);
  return text.startsWith('http://') && (url === null || !isLoopback(url));
}
