import leven from 'leven';
import { renamedSettings } from './renamed.ts';
import type { Setting } from './setting.ts';
import { settingsTable } from './table.ts';

const rows: [string, Setting][] = Object.entries(settingsTable);
const known = new Set(rows.map(([, { env }]) => env));

/**
 * Prefixes of this product's variables: the sections of the table, such as CRM_ and RATE_LIMIT_. Settings outside a section,
 * and those of a secrets manager, have names that other programs may use too.
 */
const ownPrefixes = new Set([
  'HANDOFF_',
  ...rows
    .filter(([key, { onlyWith }]) => key.includes('.') && onlyWith === undefined)
    .map(([key]) => `${key.slice(0, key.indexOf('.')).replaceAll(/[A-Z]/g, '_$&').toUpperCase()}_`),
]);

/** Variables of the clients in docs/quickstart.md, and of this project's tests. */
const clientVariables = /^HANDOFF_(?:URL|API_KEY|API_SECRET|TEST_\w+)$/;

/**
 * Variables that Kubernetes and Docker set for each other service, named after it: `CRM_SERVICE_HOST`,
 * `CRM_PORT_8080_TCP_ADDR`, `CRM_PORT=tcp://…`.
 * https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
const serviceLink =
  /_SERVICE_HOST$|_SERVICE_PORT(?:_[A-Z\d_]+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/;
const serviceAddress = /^(?:tcp|udp|sctp):\/\//;

/** Whether a variable is one of those; a service named `metrics` sets METRICS_PORT. */
export function isServiceLink(name: string, value: string): boolean {
  return serviceLink.test(name) || (name.endsWith('_PORT') && serviceAddress.test(value));
}

/** One fault for each variable that is set and has a prefix of this product, but is no setting. */
export function unknownVariables(env: NodeJS.ProcessEnv): string[] {
  return otherVariables(env)
    .filter((name) => isOwn(name))
    .map((name) => {
      const now = renamedSettings.find((setting) => setting.formerEnv === name);
      if (now !== undefined)
        return `${name}: there is no such setting; it is ${settingsTable[now.key].env} now`;
      return `${name}: there is no such setting; did you mean ${nearestVariable(name).env}?`;
    });
}

/** Other variables with names similar to those of settings: misspelt, or of another program. */
export function similarVariables(
  env: NodeJS.ProcessEnv,
  secretsManager: string,
): { name: string; nearest: string }[] {
  return otherVariables(env)
    .filter((name) => !isOwn(name))
    .map((name) => ({ name, ...nearestVariable(name, secretsManager) }))
    .filter(({ name, distance }) => distance <= allowedDistance(name))
    .map(({ name, env: nearest }) => ({ name, nearest }));
}

function otherVariables(env: NodeJS.ProcessEnv): string[] {
  return Object.entries(env).flatMap(([name, value = '']) => {
    const isForeign = isServiceLink(name, value) || clientVariables.test(name);
    return value.trim() === '' || known.has(name) || isForeign ? [] : [name];
  });
}

function isOwn(name: string): boolean {
  return [...ownPrefixes].some((prefix) => name.startsWith(prefix));
}

/** Short names are similar to many others. */
function allowedDistance(name: string): number {
  if (name.length < 6) return 0;
  return name.length < 8 ? 1 : 2;
}

/** `secretsManager`: variables of other secrets managers are left out. */
function nearestVariable(name: string, secretsManager?: string): { env: string; distance: number } {
  const candidates = rows
    .filter(([, { onlyWith }]) => [undefined, secretsManager].includes(onlyWith))
    .map(([, { env }]) => ({ env, spelt: env }));
  const former = renamedSettings.map(({ key, formerEnv }) => ({
    env: settingsTable[key].env,
    spelt: formerEnv,
  }));
  const [nearest] = [...candidates, ...former]
    .map(({ env, spelt }) => ({ env, distance: leven(spelt, name.toUpperCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return nearest as { env: string; distance: number };
}
