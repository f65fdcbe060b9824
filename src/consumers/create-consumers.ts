import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import { type AttemptRecorder, createAttemptLog } from './attempts.ts';
import { type Authenticate, createAuthentication } from './authentication.ts';
import { type ConsumerStore, createConsumerStore } from './consumer-store.ts';
import { ConsumerDirectory } from './directory.ts';
import { createKeys, type Keys } from './keys.ts';

export interface ConsumersOptions {
  secrets: SecretsManager;
  log: Log;
  metrics: Pick<Metrics, 'authenticationAttempts'>;
  refreshSeconds: number;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

/** Everything about consumers, wired up. The caller owns and closes the secrets manager. */
export interface Consumers {
  directory: ConsumerDirectory;
  authenticate: Authenticate;
  attempts: AttemptRecorder;
  store: ConsumerStore;
  keys: Keys;
  /**
   * Loads keys and consumers and keeps them up to date. Throws `SecretsUnavailable` (worth another try) and
   * `KeyUnusable` (needs a person). The store works without it.
   */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createConsumers(options: ConsumersOptions): Consumers {
  const { secrets, log, metrics, refreshSeconds, clock = Date.now } = options;
  const keys = createKeys(secrets);
  const directory = new ConsumerDirectory({ secrets, keys, log, refreshSeconds, clock });
  return {
    directory,
    authenticate: createAuthentication({ directory, keys, clock }),
    attempts: createAttemptLog(log, metrics),
    store: createConsumerStore({ secrets, keys, log, clock }),
    keys,
    start: () => directory.start(),
    stop: () => directory.stop(),
  };
}
