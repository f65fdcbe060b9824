import leven from 'leven';
import type { SettingsTable } from './table.ts';

/**
 * Prefixes of this product's variables: the sections of the table, such as CRM_ and RATE_LIMIT_. Settings outside a section,
 * and those of a secrets manager, have names that other programs may use too.
 */
function ownPrefixes(table: SettingsTable): string[] {
  const inSections = Object.entries(table).filter(
    ([key, { onlyWith }]) => key.includes('.') && onlyWith === undefined,
  );
  const prefixes = inSections.map(
    ([key]) => `${key.slice(0, key.indexOf('.')).replaceAll(/[A-Z]/g, '_$&').toUpperCase()}_`,
  );
  return ['HANDOFF_', ...new Set(prefixes)];
}

/** Variables of the programs in docs/partners and docs/quickstart.md, and of this project's tests. */
const clientVariables = /^HANDOFF_(?:URL|API_KEY|API_SECRET|CLIENT_ID|TEST_\w+)$/;

/**
 * Variables that Kubernetes and Docker set for each other service, named after it: `CRM_SERVICE_HOST`,
 * `CRM_PORT_8080_TCP_ADDR`, `CRM_PORT=tcp://…`.
 * https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
const serviceLink =
  /_SERVICE_HOST$|_SERVICE_PORT(?:_[A-Z\d_]+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/;
const serviceAddress = /^(?:tcp|udp|sctp):\/\//;

/** A service named `metrics` sets METRICS_PORT. */
export function isServiceLink(name: string, value: string): boolean {
  return serviceLink.test(name) || (name.endsWith('_PORT') && serviceAddress.test(value));
}

export function unknownVariables(table: SettingsTable, env: NodeJS.ProcessEnv): string[] {
  return otherVariables(table, env)
    .filter((name) => isOwn(table, name))
    .map((name) => {
      const { env: nearest, distance } = nearestVariable(table, name);
      const hint = distance <= name.length / 3 ? `; did you mean ${nearest}?` : '';
      return `${name}: there is no such setting${hint}`;
    });
}

export function similarVariables(
  table: SettingsTable,
  env: NodeJS.ProcessEnv,
  secretsManager: string,
): { name: string; nearest: string }[] {
  return otherVariables(table, env)
    .filter((name) => !isOwn(table, name))
    .map((name) => ({ name, ...nearestVariable(table, name, secretsManager) }))
    .filter(({ name, distance }) => distance <= allowedDistance(name))
    .map(({ name, env: nearest }) => ({ name, nearest }));
}

function otherVariables(table: SettingsTable, env: NodeJS.ProcessEnv): string[] {
  const known = new Set(Object.values(table).map(({ env: name }) => name));
  return Object.entries(env).flatMap(([name, value = '']) => {
    const isForeign = isServiceLink(name, value) || clientVariables.test(name);
    return value.trim() === '' || known.has(name) || isForeign ? [] : [name];
  });
}

function isOwn(table: SettingsTable, name: string): boolean {
  return ownPrefixes(table).some((prefix) => name.startsWith(prefix));
}

/** Short names are similar to many others. */
function allowedDistance(name: string): number {
  if (name.length < 6) return 0;
  return name.length < 8 ? 1 : 2;
}

function nearestVariable(
  table: SettingsTable,
  name: string,
  secretsManager?: string,
): { env: string; distance: number } {
  const [nearest] = Object.values(table)
    .filter(({ onlyWith }) => [undefined, secretsManager].includes(onlyWith))
    .map(({ env }) => ({ env, distance: leven(env, name.toUpperCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return nearest as { env: string; distance: number };
}
