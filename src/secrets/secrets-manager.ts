/**
 * The port to the secrets manager. A name is a path such as `consumers/con_x` or `crm/dev/private-key`:
 * segments of `[A-Za-z0-9._-]`, joined by `/`, none of them `.` or `..`.
 */
export interface SecretsManager {
  /** Which kind it is, for logs and health. */
  readonly kind: 'file' | 'vault' | 'aws';
  /** The secret, or undefined where there is none. Throws `SecretsUnavailable`. */
  read(name: string): Promise<Secret | undefined>;
  /**
   * Writes if the secret still has the version that the writer saw; `null` means that there was none.
   * Returns the new version. Throws `VersionConflict` when somebody else was faster, `SecretsUnavailable`.
   */
  write(name: string, value: string, expected: string | null): Promise<string>;
  /** Deletes if the secret still has that version. Throws as `write`. */
  delete(name: string, expected: string): Promise<void>;
  /** Names of all secrets below a folder, e.g. `consumers`. Throws `SecretsUnavailable`. */
  list(folder: string): Promise<string[]>;
  /**
   * Calls back when something below the folder may have changed; returns the way to stop. Files tell of a change
   * within 1 s. Remote secrets managers never call back, since asking them that often would load them and cost money:
   * with them a change shows when the secret is read again, every `secretsRefreshSeconds` or sooner.
   */
  watch(folder: string, changed: () => void): () => void;
  /** Resolves when the secrets manager answers. Throws `SecretsUnavailable`. */
  checkHealth(): Promise<void>;
  close(): Promise<void>;
}

export interface Secret {
  value: string;
  /** Opaque; equal if and only if nobody has written since. */
  version: string;
}

/** The secrets manager can't be reached or refuses us; the message says which and never holds a secret. */
export class SecretsUnavailable extends Error {
  override readonly name = 'SecretsUnavailable';
}

/** Somebody else wrote the secret first: read it again and decide anew. */
export class VersionConflict extends Error {
  override readonly name = 'VersionConflict';
}
