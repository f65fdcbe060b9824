import { isLoopback } from '../base/loopback.ts';
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

/** Faults that only several settings together can have, or that only production has. */
export function checkTogether(raw: RawSettings, set: ReadonlySet<SettingKey>, production: boolean): string[] {
  const faults: string[] = [];
  for (const { any, needed } of Object.values(connectionKeys)) {
    const first = any.find((key) => set.has(key));
    if (first === undefined) continue;
    for (const key of needed) {
      if (!set.has(key)) faults.push(`${named(key)} is missing: ${first} is set, and they belong together`);
    }
  }
  faults.push(...checkRedis(raw.redisUrl), ...checkTls(set), ...checkWorkers(raw, set));
  if (production) faults.push(...checkProduction(raw, set));
  return faults;
}

/** Of the forms in which several servers are named, none is spoken; to leave some of them out would be no failover. */
function checkRedis(url: string | undefined): string[] {
  if (url === undefined || (/^rediss?:/.test(url) && !url.includes(','))) return [];
  const form = 'must be the redis:// or rediss:// URL of one server';
  const advice = 'for Sentinel or a Cluster name an address that always leads to the current primary';
  return [`${named('redisUrl')} ${form}; ${advice}`];
}

/** Each of these without its partners would leave clients unchecked, or the port in the clear, without a word. */
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

/** What is embedded lives in one process. */
function checkWorkers({ workers = 1 }: RawSettings, set: ReadonlySet<SettingKey>): string[] {
  const needed = ['databaseUrl', 'redisUrl'] as const;
  return needed
    .filter((key) => workers > 1 && !set.has(key))
    .map((key) => `${named(key)} is missing: more than one worker (workers) share their state there`);
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
