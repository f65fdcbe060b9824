import { clearTimeout, setTimeout } from '../../platform/base/chance.ts';
import { coalesce, inParallel } from '../../platform/base/concurrency.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { inTime, Pauses } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import {
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
} from '../../platform/secrets/secrets-manager.ts';
import type { Consumer } from './consumer.ts';
import { consumerIdOf } from './credentials.ts';
import { DirectoryIndex, type IndexEntry, type Refused } from './directory-index.ts';
import { type Keys, keysFolder } from './keys.ts';
import { BrokenConsumer, consumerSecretName, consumersFolder, parseConsumer } from './stored-consumer.ts';

interface DirectoryOptions {
  secrets: SecretsManager;
  keys: Keys;
  log: Log;
  metrics: Pick<Metrics, 'secretsLoadedAt' | 'consumerValidUntil'>;
  onRecord: (consumer: Consumer) => void;
  refreshSeconds: number;
  /** Milliseconds since 1970. */
  clock: () => number;
}

const parallelReads = 16;
/** At most one unknown key a second costs a read, over all callers: random keys must not load the secrets manager. */
const lookUpIntervalMs = 1000;

/** A change that was announced while the secrets manager was unavailable is read again so soon: it may have revoked a key. */
const readLaterMs = 2000;

/** How long decisions wait at most for all to be read again after a pause: then what is loaded stays valid. */
const catchUpMs = 5000;

/** Unknown API keys that are remembered, and for how long: a refresh forgets them earlier. */
const maxMissedKeys = 10_000;
const missedForMs = 30_000;

/**
 * All consumers in memory, by API key. What requests call (`find`, `findGone`) does no I/O. Kept up to date
 * by a refresh every `refreshSeconds`, on every change that the secrets manager reports, and by reading the one
 * consumer that an unknown API key names. While the secrets manager is unavailable, what was loaded stays valid.
 */
export class ConsumerDirectory {
  readonly #options: DirectoryOptions;
  readonly #index = new DirectoryIndex();
  readonly #missed: ReturnType<typeof createMissedKeys>;
  readonly #lookUps = new Map<string, Promise<void>>();
  #lastLookUp = Number.NEGATIVE_INFINITY;
  readonly #toRead = new Set<string>();
  readonly #readings = new Map<string, { again: boolean; done: Promise<void> }>();

  /** Observations are numbered when they begin: one that began earlier never replaces one that began later. */
  #observations = 0;
  #refreshed = 0;
  readonly #observed = new Map<string, number>();

  readonly #refreshAll = coalesce(() => this.#startRefresh());
  #refreshing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pauses: Pauses | undefined;
  #pausesKnown = 0;
  #catchingUp: Promise<void> | undefined;
  #unwatch: (() => void)[] = [];
  #started = false;
  #connected = false;
  #completeAt: number | null = null;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#missed = createMissedKeys(options.clock);
  }

  /** Loads everything and keeps it up to date until `stop`. Throws `SecretsUnavailable`, `KeyUnusable`. */
  async start(): Promise<void> {
    await this.#options.keys.load();
    await this.#load();
    if (!this.#connected && this.#index.size === 0) throw new SecretsUnavailable('No consumer could be read');
    this.#started = true;
    this.#pauses = new Pauses();
    const refresh = () => void this.refresh();
    this.#unwatch = [consumersFolder, keysFolder].map((folder) =>
      this.#options.secrets.watch(folder, refresh),
    );
    // A change between loading and watching would be missed until the next refresh.
    refresh();
  }

  async stop(): Promise<void> {
    this.#started = false;
    this.#pauses?.stop();
    clearTimeout(this.#timer);
    for (const unwatch of this.#unwatch.splice(0)) unwatch();
    const readings = [...this.#readings.values()].map(({ done }) => done);
    await Promise.allSettled([this.#refreshing, ...this.#lookUps.values(), ...readings]);
    clearTimeout(this.#timer);
  }

  status(): {
    connected: boolean;
    consumers: number;
    /** Seconds since all of it was last read without a failure; null before that. */
    ageSeconds: number | null;
  } {
    const age = this.#completeAt === null ? null : (this.#options.clock() - this.#completeAt) / 1000;
    return { connected: this.#connected, consumers: this.#index.size, ageSeconds: age };
  }

  /**
   * Settles once all is read again, where this process has paused; undefined where all is known. To be asked before each
   * decision about credentials: they may have been disabled or rotated meanwhile. Never fails.
   */
  catchUp(): Promise<void> | undefined {
    const pauses = this.#pauses?.count ?? 0;
    if (pauses !== this.#pausesKnown) {
      this.#pausesKnown = pauses;
      const catchingUp = this.#refreshInTime().finally(() => {
        if (this.#catchingUp === catchingUp) this.#catchingUp = undefined;
      });
      this.#catchingUp = catchingUp;
    }
    return this.#catchingUp;
  }

  async #refreshInTime(): Promise<void> {
    const late = () => new Error('the secrets manager is too slow');
    await inTime(this.refresh(), catchUpMs, late).catch((err: unknown) =>
      this.#options.log.warn({ err }, "couldn't reread the consumers in time after a pause"),
    );
  }

  find(apiKey: string): IndexEntry | undefined {
    return this.#index.find(apiKey);
  }

  findGone(apiKey: string): Refused | undefined {
    return this.#index.findGone(apiKey);
  }

  consumer(id: string): Consumer | undefined {
    return this.#index.consumer(id);
  }

  newestFirst(): readonly Consumer[] {
    return this.#index.newestFirst();
  }

  put(consumer: Consumer, version: string): void {
    this.#observe(consumer.id, ++this.#observations, () => this.#setRecord(consumer.id, version, consumer));
  }

  /**
   * Reads the consumer that an unknown API key names; resolves when `find` is worth another try, and never fails.
   * `id`: of the consumer where the key does not name it, as public keys do not.
   * Undefined where none is read: the checksum is wrong, the key was not found lately, or too many unknown keys come.
   */
  lookUp(apiKey: string, id = consumerIdOf(apiKey)): Promise<void> | undefined {
    if (this.#missed.has(apiKey)) return undefined;
    if (id === undefined) return undefined;
    return this.#lookUps.get(id) ?? this.#startLookUp(id, apiKey);
  }

  /**
   * Reads one consumer that another process has changed; never fails. However often it is called during a read, it
   * reads once more afterwards: a flood of announcements costs one read at a time.
   */
  readAgain(id: string): Promise<void> {
    const running = this.#readings.get(id);
    if (running !== undefined) {
      running.again = true;
      return running.done;
    }
    const reading = { again: false, done: Promise.resolve() };
    this.#readings.set(id, reading);
    reading.done = this.#readUntilQuiet(id, reading);
    return reading.done;
  }

  async #readUntilQuiet(id: string, reading: { again: boolean }): Promise<void> {
    const { secrets, log } = this.#options;
    do {
      reading.again = false;
      const since = ++this.#observations;
      try {
        const secret = await secrets.read(consumerSecretName(id));
        this.#observe(id, since, () => this.#set(id, secret));
      } catch (err) {
        log.warn({ err, consumer_id: id }, "couldn't read a changed consumer");
        this.#readLater(id);
      }
    } while (reading.again);
    this.#readings.delete(id);
  }

  /** Once, however many announcements of it failed: their readings would go on side by side. */
  #readLater(id: string): void {
    if (this.#toRead.has(id)) return;
    this.#toRead.add(id);
    const read = () => {
      this.#toRead.delete(id);
      if (this.#started) void this.readAgain(id);
    };
    setTimeout(read, readLaterMs).unref();
  }

  /** Reads everything again, in a refresh that begins after this call; never fails: `status` shows the outcome. */
  refresh(): Promise<void> {
    this.#refreshing = this.#refreshAll();
    return this.#refreshing;
  }

  async #startRefresh(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#refreshOnce();
    if (!this.#started) return;
    this.#timer = setTimeout(() => void this.refresh(), this.#options.refreshSeconds * 1000);
    this.#timer.unref();
  }

  async #refreshOnce(): Promise<void> {
    const { log, keys } = this.#options;
    try {
      await keys.refresh();
    } catch (err) {
      log.error({ err }, "couldn't reread the keys; the loaded ones stay in use");
    }
    try {
      await this.#load();
    } catch (err) {
      this.#connected = false;
      log.error({ err }, "couldn't reread the consumers; the loaded ones stay valid");
    }
  }

  /** Throws `SecretsUnavailable` when the names can't be read; a single consumer that can't be stays as it was. */
  async #load(): Promise<void> {
    const { secrets, log, clock } = this.#options;
    const since = ++this.#observations;
    const names = await secrets.list(consumersFolder);
    const found = await readAll(secrets, names);
    const failed = found.filter((outcome) => outcome.error !== undefined);
    for (const { name, secret, error } of found) {
      if (error === undefined) this.#apply(idOf(name), secret, since);
      else
        log.error({ secret: name, err: error }, "couldn't read a consumer; its loaded version stays valid");
    }
    const present = new Set(names.map(idOf));
    for (const id of this.#index.ids()) if (!present.has(id)) this.#apply(id, undefined, since);
    this.#refreshed = since;
    for (const [id, at] of this.#observed) if (at < since) this.#observed.delete(id);
    this.#missed.clear();
    this.#showEnds();
    this.#connected = failed.length === 0;
    if (!this.#connected) return;
    this.#completeAt = clock();
    this.#options.metrics.secretsLoadedAt.set(this.#completeAt / 1000);
  }

  #showEnds(): void {
    const { consumerValidUntil } = this.#options.metrics;
    consumerValidUntil.reset();
    for (const { id, enabled = true, validUntil = null } of this.#index.newestFirst()) {
      if (enabled && validUntil !== null)
        consumerValidUntil.set({ consumer_id: id }, Date.parse(validUntil) / 1000);
    }
  }

  #startLookUp(id: string, apiKey: string): Promise<void> | undefined {
    const now = this.#options.clock();
    // The first comparison is for a clock that was set back.
    if (now >= this.#lastLookUp && now - this.#lastLookUp < lookUpIntervalMs) return undefined;
    this.#lastLookUp = now;
    const reading = this.#readOne(id, apiKey).finally(() => this.#lookUps.delete(id));
    this.#lookUps.set(id, reading);
    return reading;
  }

  async #readOne(id: string, apiKey: string): Promise<void> {
    const { secrets, log } = this.#options;
    const since = ++this.#observations;
    try {
      const secret = await secrets.read(consumerSecretName(id));
      this.#observe(id, since, () => this.#set(id, secret));
      if (this.#index.find(apiKey) === undefined && since > this.#refreshed) this.#missed.add(apiKey);
    } catch (err) {
      log.warn({ err }, "couldn't look up an unknown API key");
    }
  }

  #apply(id: string, secret: Secret | undefined, since: number): void {
    if ((this.#observed.get(id) ?? 0) < since) this.#set(id, secret);
  }

  #observe(id: string, since: number, apply: () => void): void {
    if (since < Math.max(this.#observed.get(id) ?? 0, this.#refreshed)) return;
    this.#observed.set(id, since);
    apply();
  }

  #set(id: string, secret: Secret | undefined): void {
    const { clock } = this.#options;
    if (secret === undefined) this.#index.remove(id, clock());
    else if (secret.version !== this.#index.versionOf(id))
      this.#setRecord(id, secret.version, this.#parse(consumerSecretName(id), secret.value));
  }

  /** A revoked consumer is gone, though its record stays for a while. */
  #setRecord(id: string, version: string, consumer: Consumer | undefined): void {
    const { clock, onRecord } = this.#options;
    if (consumer?.revokedAt === undefined) this.#index.set(id, version, consumer, clock());
    else this.#index.remove(id, clock());
    if (consumer !== undefined) onRecord(consumer);
  }

  /** One broken record must not stop the service or affect other records. */
  #parse(name: string, value: string): Consumer | undefined {
    const { log, keys } = this.#options;
    try {
      const consumer = parseConsumer(name, value);
      const unknown = consumer.credentials.find(
        ({ pepperVersion }) => !keys.loaded?.pepper.get(pepperVersion),
      );
      if (unknown !== undefined) {
        const facts = { secret: name, pepperVersion: unknown.pepperVersion };
        log.error(
          facts,
          "a consumer needs a version of the pepper that's missing; its secret will be refused",
        );
      }
      return consumer;
    } catch (error) {
      if (!(error instanceof BrokenConsumer)) throw error;
      log.error({ secret: name, reason: error.message }, 'a consumer record is broken and left out');
      return undefined;
    }
  }
}

interface ReadOutcome {
  name: string;
  secret?: Secret | undefined;
  error?: SecretsUnavailable;
}

async function readAll(secrets: SecretsManager, names: string[]): Promise<ReadOutcome[]> {
  const outcomes: ReadOutcome[] = [];
  await inParallel(names, parallelReads, async (name) => {
    outcomes.push(await readOutcome(secrets, name));
  });
  return outcomes;
}

async function readOutcome(secrets: SecretsManager, name: string): Promise<ReadOutcome> {
  try {
    return { name, secret: await secrets.read(name) };
  } catch (error) {
    if (error instanceof SecretsUnavailable) return { name, error };
    throw error;
  }
}

function idOf(name: string): string {
  return name.slice(consumersFolder.length + 1);
}

/** API keys that were looked up and not found, so that a caller with a stale key costs one read and not many. */
function createMissedKeys(clock: () => number) {
  const missed = new Map<string, number>();
  return {
    has(apiKey: string): boolean {
      const until = missed.get(apiKey);
      if (until === undefined) return false;
      if (clock() < until) return true;
      missed.delete(apiKey);
      return false;
    },
    add(apiKey: string): void {
      missed.set(apiKey, clock() + missedForMs);
      forgetOldest(missed, maxMissedKeys);
    },
    clear: () => missed.clear(),
  };
}
