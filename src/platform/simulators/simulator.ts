import { retryOnConflict, type SecretsManager } from '../secrets/secrets-manager.ts';
import type { Settings } from '../settings/table.ts';

export interface Simulated {
  url: string;
  settings: Readonly<Record<string, unknown>>;
}

export interface Simulator {
  /** The section of the settings that names a real one, such as `dining`. */
  name: string;
  /** Undefined where the settings name a real one, and where production takes no simulated one. Closed with `opened`. */
  start(
    settings: Settings,
    secrets: SecretsManager,
    opened: AsyncDisposableStack,
  ): Promise<Simulated | undefined>;
}

export function withSimulated<S extends Settings>(settings: S, simulated: Simulated | undefined): S {
  const changed: Record<string, unknown> = { ...settings };
  for (const [key, value] of Object.entries(simulated?.settings ?? {})) {
    const [section = '', name = ''] = key.split('.');
    changed[section] = { ...(changed[section] as object), [name]: value };
  }
  return changed as S;
}

/** A secret that gateway and simulator share; made if there is none. Throws `SecretsUnavailable`. */
export function readOrMakeSecret(
  secrets: SecretsManager,
  name: string,
  make: () => Promise<string> | string,
): Promise<string> {
  // Where another process makes one first, that one counts.
  return retryOnConflict(async () => {
    const existing = await secrets.read(name);
    if (existing) return existing.value;
    const value = await make();
    await secrets.write(name, value, null);
    return value;
  });
}

/** A system as the banner shows it: of a real one only the host, for its address may hold credentials. */
export function describeAddress(
  simulated: Pick<Simulated, 'url'> | undefined,
  real: string | undefined,
  advice: string,
): [what: string, note: string] {
  return simulated ? [`simulated at ${simulated.url}`, advice] : [URL.parse(real ?? '')?.host ?? '', ''];
}
