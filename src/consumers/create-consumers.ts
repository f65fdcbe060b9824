import type { SharedCache } from '../cache/shared-cache.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import { type ConsumerAdministration, createConsumerAdministration } from './administration.ts';
import { createAnnounce, followAnnouncements } from './announcements.ts';
import type { AttemptRecorder } from './attempts.ts';
import { type Authenticate, createAuthentication } from './authentication.ts';
import { type ConsumerStore, createConsumerStore } from './consumer-store.ts';
import { ConsumerDirectory } from './directory.ts';
import { createKeys, type Keys } from './keys.ts';

export interface ConsumersOptions {
  secrets: SecretsManager;
  log: Log;
  metrics: Pick<Metrics, 'authenticationAttempts' | 'secretsLoadedAt'>;
  refreshSeconds: number;
  /** Through which replicas tell each other of changes; without it they see them at their next refresh. */
  cache?: SharedCache | undefined;
  /** Where attempts are kept, beside the log. */
  audit?: AttemptRecorder;
  /** How long a rotated pair stays valid unless the rotation says otherwise; a day if left out. */
  graceWindowHours?: number;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

/** Everything about consumers, wired up. The caller owns and closes the secrets manager, the cache and the audit. */
export interface Consumers {
  directory: ConsumerDirectory;
  authenticate: Authenticate;
  attempts: AttemptRecorder;
  store: ConsumerStore;
  administration: ConsumerAdministration;
  keys: Keys;
  /**
   * Loads keys and consumers and keeps them up to date. Throws `SecretsUnavailable` (worth another try) and
   * `KeyUnusable` (needs a person). The store and the administration work without it.
   */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createConsumers(options: ConsumersOptions): Consumers {
  const { secrets, log, metrics, refreshSeconds, cache, graceWindowHours = 24, clock = Date.now } = options;
  const keys = createKeys(secrets);
  const directory = new ConsumerDirectory({ secrets, keys, log, metrics, refreshSeconds, clock });
  const store = createConsumerStore({ secrets, keys, log, clock });
  const announce = createAnnounce(cache, log);
  let unfollow: (() => void) | undefined;
  return {
    directory,
    authenticate: createAuthentication({ directory, keys, clock }),
    attempts: createAttempts(options),
    store,
    administration: createConsumerAdministration({
      store,
      directory,
      keys,
      announce,
      graceWindowHours,
      clock,
    }),
    keys,
    start: async () => {
      await directory.start();
      if (cache) unfollow = followAnnouncements(cache, directory);
    },
    stop: async () => {
      unfollow?.();
      await directory.stop();
    },
  };
}

/** Counts attempts and passes them on to the audit; that they stand in the log is seen to where requests are logged. */
function createAttempts({ metrics, audit }: ConsumersOptions): AttemptRecorder {
  return {
    record: (attempt) => {
      metrics.authenticationAttempts.inc({ result: attempt.result });
      audit?.record(attempt);
    },
  };
}
