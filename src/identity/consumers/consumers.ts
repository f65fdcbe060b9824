import { wallMs } from '../../platform/base/chance.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { AttemptRecorder } from '../audit/attempt.ts';
import { createConsumerAdministration } from './administration.ts';
import { caughtUp, createAuthentication } from './authentication.ts';
import type { Consumer } from './consumer.ts';
import { type ConsumerStore, createConsumerStore } from './consumer-store.ts';
import { isConsumerId } from './credentials.ts';
import { ConsumerDirectory } from './directory.ts';
import { createKeys } from './keys.ts';
import type { FieldNames } from './permissions.ts';
import { type EventArchive, isWorthForgetting, waitingEvents } from './record-changes.ts';

interface ConsumersOptions {
  secrets: SecretsManager;
  log: Log;
  metrics: Pick<
    Metrics,
    'authenticationAttempts' | 'consumerFailedAttempts' | 'consumerValidUntil' | 'secretsLoadedAt'
  >;
  refreshSeconds: number;
  /** Announces changes to the other replicas; without it they see a change at their next refresh. */
  cache?: SharedCache | undefined;
  environment?: string;
  audit?: AttemptRecorder;
  /** Without it changes wait in the consumers' records. */
  auditEvents?: EventArchive;
  fieldNames?: FieldNames;
  /** How long a rotated pair stays valid unless a rotation sets another time; a day if left out. */
  graceWindowHours?: number;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

export type Consumers = ReturnType<typeof createConsumers>;

export function createConsumers(options: ConsumersOptions) {
  const { secrets, log, metrics, refreshSeconds, cache, graceWindowHours = 24, clock = wallMs } = options;
  const { fieldNames = () => undefined } = options;
  const channel = `consumers:${options.environment ?? 'dev'}`;
  const keys = createKeys(secrets);
  const store = createConsumerStore({ secrets, keys, log, fieldNames, clock });
  const archiving = archiveChanges(store, options.auditEvents);
  const onRecord = archiving.take;
  const directory = new ConsumerDirectory({ secrets, keys, log, metrics, onRecord, refreshSeconds, clock });
  const announce = createAnnounce(cache, channel, log);
  let unfollow: (() => void) | undefined;
  return {
    directory,
    authenticate: caughtUp(createAuthentication({ directory, keys, clock }), directory),
    attempts: createAttempts(options),
    store,
    administration: createConsumerAdministration({
      store,
      secrets,
      directory,
      keys,
      announce,
      log,
      fieldNames,
      graceWindowHours,
      clock,
      archive: options.auditEvents,
    }),
    keys,
    /**
     * Loads keys and consumers and keeps them up to date. Throws `SecretsUnavailable` (worth another try) and
     * `KeyUnusable` (needs a person). The store and the administration work without it.
     */
    start: async () => {
      await directory.start();
      if (cache) unfollow = followAnnouncements(cache, channel, directory);
    },
    stop: async () => {
      unfollow?.();
      await directory.stop();
      await archiving.stop();
    },
  };
}

/**
 * Takes the changes that wait in records to the archive, and then out of the records. `stop` resolves once no write is under
 * way: the caller closes the secrets manager next.
 */
function archiveChanges(
  store: Pick<ConsumerStore, 'forgetEvents'>,
  archive: EventArchive | undefined,
): { take(consumer: Consumer): void; stop(): Promise<unknown> } {
  const underWay = new Set<string>();
  const writes = new Set<Promise<void>>();
  let stopped = false;
  const forget = async (id: string, events: readonly { id: string }[]) => {
    const write = store.forgetEvents(id, new Set(events.map((event) => event.id)));
    writes.add(write);
    await write.finally(() => writes.delete(write));
  };
  const take = (consumer: Consumer) => {
    const events = waitingEvents(consumer);
    const { id, revokedAt } = consumer;
    const last = `${id} ${events.at(-1)?.id}`;
    if (archive === undefined || (events.length === 0 && revokedAt === undefined) || underWay.has(last))
      return;
    underWay.add(last);
    void archive
      .keep(events)
      .then(() => {
        if (stopped || (revokedAt === undefined && !isWorthForgetting(consumer))) return undefined;
        return forget(id, events);
      })
      .finally(() => underWay.delete(last));
  };
  const stop = () => {
    stopped = true;
    return Promise.allSettled(writes);
  };
  return { take, stop };
}

function createAttempts({ metrics, audit }: ConsumersOptions): AttemptRecorder {
  return {
    record: (attempt) => {
      const { result, consumer_id } = attempt;
      metrics.authenticationAttempts.inc({ result });
      if (result !== 'accepted' && consumer_id !== null) metrics.consumerFailedAttempts.inc({ consumer_id });
      audit?.record(attempt);
    },
  };
}

/**
 * Notifies every replica of a changed consumer, by its id only: the change itself is in the secrets manager. Never fails:
 * replicas that miss it see the change at their next refresh.
 */
function createAnnounce(cache: SharedCache | undefined, channel: string, log: Log) {
  return async (id: string): Promise<void> => {
    try {
      await cache?.publish(channel, id);
    } catch (err) {
      log.warn({ err, consumer_id: id }, "couldn't announce a consumer's change to other replicas");
    }
  };
}

/**
 * Reads a consumer again when another replica has changed it, and everything after each time announcements may have
 * been missed. Returns a function that stops it.
 */
function followAnnouncements(
  cache: SharedCache,
  channel: string,
  directory: Pick<ConsumerDirectory, 'readAgain' | 'refresh'>,
): () => void {
  return cache.subscribe(
    channel,
    (id) => {
      if (isConsumerId(id)) void directory.readAgain(id);
    },
    () => void directory.refresh(),
  );
}
