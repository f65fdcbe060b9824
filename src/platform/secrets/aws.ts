import { monotonicMs, randomUUID, sleep } from '../base/chance.ts';
import { inParallel } from '../base/concurrency.ts';
import { SharedProbe } from '../observability/health.ts';
import { AwsCalls, AwsRefusal } from './aws-calls.ts';
import {
  checkSecretName,
  isSecretName,
  maxSecretBytes,
  probeLifetimes,
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from './secrets-manager.ts';

interface AwsOptions {
  /** Beginning of the names of all secrets of the gateway, a last slash included. */
  prefix: string;
  /** Undefined: as the SDK finds it in its own variables and files. */
  region?: string | undefined;
  /** For one call with all its attempts. 10 s when not given. */
  timeoutMs?: number | undefined;
}

/** Stage of a version that is about to become current. It stays on it until the next write takes it away. */
const nextStage = 'HANDOFF_NEXT';
const deletedStage = 'HANDOFF_DELETED';

/** How long a create waits for a deletion of the same secret, which the service does in the background. */
const deletionWaitMs = 5000;
const deletionPollMs = 250;
const parallelReads = 16;

/**
 * Secrets in AWS Secrets Manager (AWS Secrets Manager API Reference). A version here is a version id of the service,
 * which is never used twice. The service has no conditional write, but it moves the stage AWSCURRENT only away from
 * the version that the caller names: a write adds a version under another stage and then moves AWSCURRENT to it from
 * the version that the writer saw. A deletion does the same with a version that stands for a deleted secret, and then removes
 * the secret at once, without a recovery window. `watch` reports nothing.
 */
export function createAwsSecretsManager(options: AwsOptions): SecretsManager {
  return new AwsSecretsManager(options);
}

class AwsSecretsManager implements SecretsManager {
  readonly kind = 'aws';
  readonly #prefix: string;
  readonly #calls: AwsCalls;
  readonly #health: SharedProbe<void>;
  /**
   * Names that were there when they were last read or written here. Lists of the service may lack what is newer than
   * five minutes: without these, a consumer that was just created would be lost again. Names that a list lacks are read,
   * since the secret may also have been deleted elsewhere.
   */
  readonly #seen = new Set<string>();

  constructor({ prefix, region, timeoutMs = 10_000 }: AwsOptions) {
    this.#prefix = prefix;
    this.#calls = new AwsCalls({ region, timeoutMs });
    this.#health = new SharedProbe(() => this.#guard(() => this.#calls.ping(prefix)), probeLifetimes);
  }

  async read(name: string): Promise<Secret | undefined> {
    checkSecretName(name);
    const found = await this.#guard(() => this.#find(name));
    return found === 'absent' || found === 'being deleted' ? undefined : found;
  }

  async write(name: string, value: string, expected: string | null): Promise<string> {
    checkSecretName(name);
    if (Buffer.byteLength(value) > maxSecretBytes) throw this.#tooLarge(name);
    // The service takes no empty text.
    if (value === '') throw this.#unavailable(name, "a secret can't be empty");
    const write = () =>
      expected === null ? this.#create(name, value) : this.#replace(name, value, expected, nextStage);
    const version = await this.#guard(write);
    this.#seen.add(name);
    return version;
  }

  async delete(name: string, expected: string): Promise<void> {
    checkSecretName(name);
    await this.#guard(async () => {
      await this.#replace(name, 'deleted', expected, deletedStage);
      this.#seen.delete(name);
      await this.#calls.remove(this.#prefix + name).catch(ignoreAbsence);
    });
  }

  async list(folder: string): Promise<string[]> {
    checkSecretName(folder);
    const listed = await this.#guard(() => this.#calls.listNames(`${this.#prefix}${folder}/`));
    const names = new Set(listed.map((name) => name.slice(this.#prefix.length)).filter(isSecretName));
    const others = [...this.#seen].filter((name) => name.startsWith(`${folder}/`) && !names.has(name));
    for (const name of await this.#stillThere(others)) names.add(name);
    return [...names].sort();
  }

  async #stillThere(names: readonly string[]): Promise<string[]> {
    const found: string[] = [];
    await inParallel(names, parallelReads, async (name) => {
      if ((await this.read(name)) !== undefined) found.push(name);
    });
    return found;
  }

  /** The service has no notifications without further services, and polling costs: changes show when secrets are read. */
  watch(): () => void {
    return () => undefined;
  }

  checkHealth(): Promise<void> {
    return this.#health.check();
  }

  close(): Promise<void> {
    return this.#calls.close();
  }

  async #find(name: string): Promise<Secret | 'absent' | 'being deleted'> {
    try {
      const { value, version, stages } = await this.#calls.get(this.#prefix + name);
      if (stages.includes(deletedStage)) return this.#gone(name, 'being deleted');
      if (Buffer.byteLength(value) > maxSecretBytes) throw this.#tooLarge(name);
      this.#seen.add(name);
      return { value, version };
    } catch (error) {
      if (!(error instanceof AwsRefusal)) throw error;
      if (error.isBeingDeleted) return this.#gone(name, 'being deleted');
      if (error.code === 'ResourceNotFoundException') return this.#gone(name, 'absent');
      throw error;
    }
  }

  #gone<T>(name: string, how: T): T {
    this.#seen.delete(name);
    return how;
  }

  async #create(name: string, value: string): Promise<string> {
    const version = randomUUID();
    const until = monotonicMs() + deletionWaitMs;
    for (;;) {
      try {
        await this.#calls.create(this.#prefix + name, value, version);
        return version;
      } catch (error) {
        if (!isInTheWay(error)) throw error;
      }
      const found = await this.#find(name);
      if (typeof found === 'object') {
        if (found.version === version) return version;
        throw this.#conflict(name);
      }
      if (monotonicMs() > until) throw this.#unavailable(name, blocked);
      await sleep(deletionPollMs);
    }
  }

  async #replace(name: string, value: string, expected: string, stage: string): Promise<string> {
    const version = randomUUID();
    const id = this.#prefix + name;
    try {
      await this.#calls.addVersion(id, value, version, stage);
      await this.#calls.moveCurrent(id, expected, version);
      return version;
    } catch (error) {
      if (!(error instanceof AwsRefusal)) throw error;
      return this.#reconcile(name, error, expected, version);
    }
  }

  /** After a refusal, the current version shows what happened, more surely than the error of the service. */
  async #reconcile(name: string, refusal: AwsRefusal, expected: string, version: string): Promise<string> {
    const current = await this.#calls.get(this.#prefix + name).catch((error: unknown) => {
      if (error instanceof AwsRefusal) return undefined;
      throw error;
    });
    // The answer to a first attempt was lost, and the SDK's second one was refused for what the first had done.
    if (current?.version === version) return version;
    // Where our version is gone, another writer has taken its stage: that one may be about to win.
    if (current?.version === expected && refusal.code !== 'ResourceNotFoundException') throw refusal;
    throw this.#conflict(name);
  }

  /** Refusals that nothing else handles become `SecretsUnavailable`; after a failure the next health check probes again. */
  async #guard<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof VersionConflict) throw error;
      this.#health.noteFailure();
      if (!(error instanceof AwsRefusal)) throw error;
      throw new SecretsUnavailable(`AWS Secrets Manager refused a call: ${error.code}`);
    }
  }

  #conflict(name: string): VersionConflict {
    return new VersionConflict(`${this.#prefix}${name} in AWS Secrets Manager was changed by another writer`);
  }

  #tooLarge(name: string): SecretsUnavailable {
    return this.#unavailable(name, `a secret can have at most ${maxSecretBytes} bytes`);
  }

  #unavailable(name: string, reason: string): SecretsUnavailable {
    return new SecretsUnavailable(`${this.#prefix}${name} in AWS Secrets Manager: ${reason}`);
  }
}

const blocked =
  'a secret of that name has no value, or is scheduled for deletion, or its deletion never finished: ' +
  'restore it, or delete it without recovery, then try again';

function isInTheWay(error: unknown): boolean {
  if (!(error instanceof AwsRefusal)) return false;
  return error.code === 'ResourceExistsException' || error.isBeingDeleted;
}

function ignoreAbsence(error: unknown): void {
  if (error instanceof AwsRefusal && (error.code === 'ResourceNotFoundException' || error.isBeingDeleted))
    return;
  throw error;
}
