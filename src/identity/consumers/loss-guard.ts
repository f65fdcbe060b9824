import { createBatcher } from '../../platform/base/batching.ts';
import { sleep } from '../../platform/base/chance.ts';
import {
  retryOnConflict,
  type Secret,
  type SecretsManager,
  SecretsUnavailable,
} from '../../platform/secrets/secrets-manager.ts';
import { isConsumerId } from './credentials.ts';
import { consumersFolder } from './stored-consumer.ts';

/** A folder is emptied file by file: it is listed again after this pause until no more secrets go missing. */
const relistMs = 250;

/**
 * A secrets manager that has lost its content (a lost mount leaves an empty folder, a wrong prefix an empty list)
 * answers as if everything had been deleted. This guard makes it count as unavailable instead: when no consumer is
 * listed although this process knew some that were not revoked, every secret that was there before throws
 * `SecretsUnavailable`, and none is created. The loss of a single secret counts as a deletion.
 */
export function guardAgainstLoss(secrets: SecretsManager): SecretsManager {
  const guard = new LossGuard(secrets);
  return {
    kind: secrets.kind,
    read: (name) => guard.read(name),
    write: (name, value, expected) => guard.write(name, value, expected),
    delete: (name, expected) => guard.delete(name, expected),
    list: (folder) => (folder === consumersFolder ? guard.listConsumers() : secrets.list(folder)),
    watch: (folder, changed) => secrets.watch(folder, changed),
    checkHealth: () => secrets.checkHealth(),
    close: () => secrets.close(),
  };
}

class LossGuard {
  readonly #secrets: SecretsManager;
  readonly #seen = new Set<string>();

  constructor(secrets: SecretsManager) {
    this.#secrets = secrets;
  }

  async read(name: string): Promise<Secret | undefined> {
    const found = await this.#secrets.read(name);
    if (found !== undefined) this.#seen.add(name);
    if (found !== undefined || !this.#seen.has(name)) return found;
    await sleep(relistMs);
    await this.listConsumers();
    const again = await this.#secrets.read(name);
    if (again === undefined) this.#seen.delete(name);
    return again;
  }

  /** After a write into an empty folder, the other secrets would seem to have been deleted one by one. */
  async write(name: string, value: string, expected: string | null): Promise<string> {
    if (expected === null && this.#knownConsumers().length > 0) await this.listConsumers();
    const version = await this.#secrets.write(name, value, expected);
    this.#seen.add(name);
    return version;
  }

  async delete(name: string, expected: string): Promise<void> {
    await this.#secrets.delete(name, expected);
    this.#seen.delete(name);
  }

  async listConsumers(): Promise<string[]> {
    const names = new Set(await this.#listUntilStable());
    const missing = this.#knownConsumers().filter((name) => !names.has(name));
    if (names.size === 0 && missing.length > 0) await checkRevoked(this.#secrets, missing);
    for (const name of missing) this.#seen.delete(name);
    for (const name of names) this.#seen.add(name);
    return [...names];
  }

  async #listUntilStable(): Promise<string[]> {
    let names = await this.#secrets.list(consumersFolder);
    for (let missing = this.#countMissing(names); missing > 0; ) {
      await sleep(relistMs);
      names = await this.#secrets.list(consumersFolder);
      const before = missing;
      missing = this.#countMissing(names);
      if (missing === before) break;
    }
    return names;
  }

  #countMissing(names: readonly string[]): number {
    const present = new Set(names);
    return this.#knownConsumers().filter((name) => !present.has(name)).length;
  }

  #knownConsumers(): string[] {
    return [...this.#seen].filter((name) => name.startsWith(`${consumersFolder}/`));
  }
}

async function checkRevoked(secrets: SecretsManager, missing: readonly string[]): Promise<void> {
  const revoked = new Set((await readRevocations(secrets)).map((id) => `${consumersFolder}/${id}`));
  const lost = missing.filter((name) => !revoked.has(name)).length;
  if (lost === 0) return;
  throw new SecretsUnavailable(
    `The secrets manager (${secrets.kind}) lists no consumers, although it had ${lost} that weren't revoked. ` +
      'The gateway treats it as unavailable until its secrets are restored',
  );
}

/**
 * Checks for loss in a process that has just started and has seen no secrets yet. `wereKnown` resolves to whether there
 * were other consumers than the revoked ones. Throws `SecretsUnavailable`, and what `wereKnown` does.
 */
export async function checkForLoss(
  secrets: SecretsManager,
  wereKnown: (revoked: readonly string[]) => Promise<boolean>,
  advice: string,
): Promise<void> {
  if ((await secrets.list(consumersFolder)).length > 0) return;
  if (!(await wereKnown(await readRevocations(secrets)))) return;
  throw new SecretsUnavailable(
    `The secrets manager (${secrets.kind}) lists no consumers, although it had some. Restore its secrets. ${advice}`,
  );
}

/**
 * Name of the secret with the ids of the consumers that were revoked last, one a line. By it every process distinguishes the
 * revocation of the last consumer from a secrets manager that has lost all of them.
 */
const revocationsName = 'revoked-consumers';

/** 21 KB. */
const maxIds = 1000;

/**
 * Notes that a consumer is about to be deleted. What comes while a note is being written is written together
 * with the next: many revocations at once do not disturb each other. Throws `SecretsUnavailable`, `VersionConflict`.
 */
export function createRevocationNotes(secrets: SecretsManager): (id: string) => Promise<void> {
  return createBatcher({
    execute: async (ids: string[]) => {
      await retryOnConflict(() => addIds(secrets, ids));
      return ids.map(() => undefined);
    },
    inFlight: 1,
    batchSize: maxIds,
    identity: (id) => id,
    isShared: () => true,
    isHung: () => false,
  });
}

async function addIds(secrets: SecretsManager, added: readonly string[]): Promise<void> {
  const found = await secrets.read(revocationsName);
  const known = new Set(parse(found?.value));
  const ids = new Set([...known, ...added]);
  if (ids.size === known.size) return;
  const value = [...ids].slice(-maxIds).join('\n');
  await secrets.write(revocationsName, `${value}\n`, found?.version ?? null);
}

/** Throws `SecretsUnavailable`. */
export async function readRevocations(secrets: SecretsManager): Promise<string[]> {
  return parse((await secrets.read(revocationsName))?.value);
}

function parse(value = ''): string[] {
  return value.split('\n').filter((line) => isConsumerId(line));
}
