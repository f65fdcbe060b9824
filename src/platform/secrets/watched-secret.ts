import { clearInterval, setInterval } from '../base/chance.ts';
import { coalesce } from '../base/concurrency.ts';
import type { Secret, SecretsManager } from './secrets-manager.ts';

interface WatchedSecretOptions<T> {
  secrets: Pick<SecretsManager, 'watch'>;
  folder: string;
  refreshSeconds: number;
  read: () => Promise<Secret | undefined>;
  /** Called with an empty text where there is no secret. */
  parse: (text: string) => T;
  /** Called with an error of `read` or `parse`; the value from before stays. */
  onFailure: (err: unknown) => void;
}

/** A secret in memory: read again every `refreshSeconds`, and on every change that the secrets manager reports. */
export class WatchedSecret<T> {
  readonly #options: WatchedSecretOptions<T>;
  readonly #refresh = coalesce(() => this.#read());
  #value: T | undefined;
  #version: string | null | undefined;
  #lastRefresh: Promise<void> | undefined;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #unwatch: (() => void) | undefined;

  constructor(options: WatchedSecretOptions<T>) {
    this.#options = options;
  }

  /** Undefined until the secret could be read once. */
  get value(): T | undefined {
    return this.#value;
  }

  /** Reads the secret and keeps it up to date until `stop`. While the secrets manager is unavailable, it is asked again. */
  async start(): Promise<void> {
    const { secrets, folder, refreshSeconds } = this.#options;
    this.#unwatch = secrets.watch(folder, () => void this.refresh());
    this.#timer = setInterval(() => void this.refresh(), refreshSeconds * 1000).unref();
    await this.refresh();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unwatch?.();
    clearInterval(this.#timer);
    // Waits for the reading under way, if there is one.
    await this.refresh();
  }

  /** Reads the secret again. Never fails. */
  refresh(): Promise<void> {
    this.#lastRefresh = this.#refresh();
    return this.#lastRefresh;
  }

  async settled(): Promise<void> {
    await this.#lastRefresh;
  }

  async #read(): Promise<void> {
    if (this.#isStopped) return;
    const { read, parse, onFailure } = this.#options;
    try {
      const secret = await read();
      const version = secret?.version ?? null;
      if (version === this.#version) return;
      this.#value = parse(secret?.value ?? '');
      this.#version = version;
    } catch (err) {
      onFailure(err);
    }
  }
}
