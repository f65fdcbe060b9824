import { setTimeout as sleep } from 'node:timers/promises';
import { type SecretsManager, VersionConflict } from '../../platform/secrets/secrets-manager.ts';
import { isConsumerId } from './credentials.ts';

/**
 * Name of the secret with the ids of the consumers that were revoked last, one a line. By it every process can tell the
 * revocation of the last consumer from a secrets manager that has lost all of them.
 */
const revocationsName = 'revoked-consumers';

/** 21 KB. */
const maxIds = 1000;

/** How often a note is tried again after another process was faster. */
const maxTries = 50;
const longestPauseMs = 50;

/**
 * Notes that a consumer is about to be deleted. What comes while a note is being written is written with the next, in
 * one piece: many revocations at once do not disturb each other. Throws `SecretsUnavailable`, `VersionConflict`.
 */
export function createRevocationNotes(secrets: SecretsManager): (id: string) => Promise<void> {
  let waiting: string[] = [];
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;

  async function writeWaiting(): Promise<void> {
    const ids = waiting;
    waiting = [];
    next = undefined;
    for (let tries = 1; ; tries++) {
      try {
        return await addIds(secrets, ids);
      } catch (error) {
        if (!(error instanceof VersionConflict) || tries === maxTries) throw error;
        await sleep(Math.random() * longestPauseMs);
      }
    }
  }

  return (id) => {
    waiting.push(id);
    if (next === undefined) {
      next = last.then(writeWaiting);
      // One that failed does not stop those after it.
      last = next.catch(() => undefined);
    }
    return next;
  };
}

async function addIds(secrets: SecretsManager, added: readonly string[]): Promise<void> {
  const found = await secrets.read(revocationsName);
  const known = new Set(parse(found?.value));
  const ids = new Set([...known, ...added]);
  if (ids.size === known.size) return;
  const value = [...ids].slice(-maxIds).join('\n');
  await secrets.write(revocationsName, `${value}\n`, found?.version ?? null);
}

/** Ids of the consumers that were revoked last. Throws `SecretsUnavailable`. */
export async function readRevocations(secrets: SecretsManager): Promise<string[]> {
  return parse((await secrets.read(revocationsName))?.value);
}

function parse(value = ''): string[] {
  return value.split('\n').filter((line) => isConsumerId(line));
}
