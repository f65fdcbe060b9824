import { randomFraction, sleep } from '../base/chance.ts';

/**
 * The port to the secrets manager. A name is a path such as `consumers/con_x` or `crm/dev/private-key`:
 * segments of `[A-Za-z0-9._-]`, joined by `/`, none of them `.` or `..`.
 */
export interface SecretsManager {
  readonly kind: 'file' | 'vault' | 'aws';
  /** The secret, or undefined where there is none. Throws `SecretsUnavailable`. */
  read(name: string): Promise<Secret | undefined>;
  /**
   * Writes if the secret still has the version that the writer saw; `null` means that there was none.
   * Returns the new version. Throws `VersionConflict` when another writer was faster, `SecretsUnavailable`.
   */
  write(name: string, value: string, expected: string | null): Promise<string>;
  /** Deletes if the secret still has that version. Throws as `write`. */
  delete(name: string, expected: string): Promise<void>;
  /** Names of all secrets below a folder, e.g. `consumers`. Throws `SecretsUnavailable`. */
  list(folder: string): Promise<string[]>;
  /**
   * Calls back when something below the folder may have changed; returns a function that stops it. Changes of files are reported
   * within 1 s. Remote secrets managers never call back, since polling them would load them and cost money: their
   * changes are seen when the secret is read again, every `secretsRefreshSeconds` or sooner.
   */
  watch(folder: string, changed: () => void): () => void;
  /** Resolves when the secrets manager answers. Throws `SecretsUnavailable`. */
  checkHealth(): Promise<void>;
  close(): Promise<void>;
}

export interface Secret {
  value: string;
  /** Opaque; equal if and only if the secret has not been written since. */
  version: string;
}

/** The secrets manager can't be reached or refuses access; the message says which and never holds a secret. */
export class SecretsUnavailable extends Error {
  override readonly name = 'SecretsUnavailable';
}

/** Another writer changed the secret first: read it again before deciding. */
export class VersionConflict extends Error {
  override readonly name = 'VersionConflict';
}

const maxTries = 50;
const longestPauseMs = 50;

/**
 * Repeats work that reads a secret and writes it, while other writers are faster. Throws what the work does, and the last
 * `VersionConflict` after 50 tries.
 */
export async function retryOnConflict<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof VersionConflict) || tries === maxTries) throw error;
      // Random pauses, so that two processes do not conflict again.
      await sleep(randomFraction() * longestPauseMs);
    }
  }
}

/** How long remote secrets managers use a result of their health probe: asking costs money or load. */
export const probeLifetimes = { goodForMs: 30_000, badForMs: 2000 };

const segment = '[A-Za-z0-9_-][A-Za-z0-9._-]*';
const expression = new RegExp(`^${segment}(?:/${segment})*$`);
const maxLength = 200;

export const maxSecretBytes = 64 * 1024;

/** Whether the text names a secret, or a folder of secrets: it can't leave the root and names no hidden file. */
export function isSecretName(name: string): boolean {
  return name.length <= maxLength && expression.test(name);
}

/** Throws `TypeError` for what is no name: a mistake in the program or its settings, not of the secrets manager. */
export function checkSecretName(name: string): void {
  if (isSecretName(name)) return;
  const rule = `1 to ${maxLength} characters, segments of [A-Za-z0-9._-] joined by "/", none with a leading dot`;
  throw new TypeError(`${JSON.stringify(name.slice(0, maxLength))} isn't the name of a secret: ${rule}`);
}
