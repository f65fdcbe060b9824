import {
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from '../../src/platform/secrets/secrets-manager.ts';
import type { Way } from './reach.ts';

/** The secrets of all replicas. */
export class SharedSecrets {
  readonly #secrets = new Map<string, Secret>();
  #version = 0;

  /** As one replica reaches them. A remote secrets manager never calls back. */
  seenFrom(way: Way): SecretsManager {
    const away = () => new SecretsUnavailable('the secrets manager cannot be reached');
    const call = <T>(work: () => T) => way.call(async () => work(), away);
    return {
      kind: 'vault',
      read: (name) => call(() => this.#secrets.get(name)),
      write: (name, value, expected) => call(() => this.write(name, value, expected)),
      delete: (name, expected) =>
        call(() => {
          this.#check(name, expected);
          this.#secrets.delete(name);
        }),
      list: (folder) =>
        call(() => [...this.#secrets.keys()].filter((name) => name.startsWith(`${folder}/`)).sort()),
      watch: () => () => {},
      checkHealth: () => call(() => undefined),
      close: async () => {},
    };
  }

  write(name: string, value: string, expected: string | null): string {
    this.#check(name, expected);
    this.#version += 1;
    this.#secrets.set(name, { value, version: String(this.#version) });
    return String(this.#version);
  }

  #check(name: string, expected: string | null): void {
    if ((this.#secrets.get(name)?.version ?? null) !== expected) throw new VersionConflict(name);
  }
}
