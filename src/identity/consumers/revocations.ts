import { createBatcher } from '../../platform/base/batching.ts';
import { retryOnConflict, type SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import { isConsumerId } from './credentials.ts';

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
