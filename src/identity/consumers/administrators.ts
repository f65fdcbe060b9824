import { randomUUID } from '../../platform/base/chance.ts';
import { modeOf } from '../../platform/base/mode.ts';
import { Problem } from '../../platform/base/problem.ts';
import { allows, type Consumer } from './consumer.ts';
import type { ConsumerStore } from './consumer-store.ts';
import type { ConsumerDirectory } from './directory.ts';
import { undefinedIfBroken } from './stored-consumer.ts';

export function isAdministrator(consumer: Consumer): boolean {
  const { id, enabled = true, validUntil = null } = consumer;
  const isLasting = enabled && validUntil === null;
  return isLasting && modeOf(id) === 'live' && allows(consumer, 'consumers', 'write');
}

export interface OtherAdministrators {
  store: Pick<ConsumerStore, 'find' | 'save'>;
  directory: Pick<ConsumerDirectory, 'newestFirst' | 'refresh'>;
}

/**
 * Makes sure that there is another administrator than the one of that id, whose record was read before and is about to be
 * changed or deleted. It writes a mark to the other one's record: a request that takes that one's rights at the same time, on
 * whichever replica, has read its record before, fails to write over the mark, and starts again. Throws `Problem`
 * conflict where there is no other, `VersionConflict`, `SecretsUnavailable`.
 */
export async function holdAnotherAdministrator(id: string, options: OtherAdministrators): Promise<void> {
  if (await markOne(id, options)) return;
  // Another replica may have made one a moment ago.
  await options.directory.refresh();
  if (await markOne(id, options)) return;
  throw new Problem(
    'conflict',
    'This is the last enabled consumer with consumers:write and without validUntil, so it cannot be changed like this. The ' +
      'command line can.',
  );
}

async function markOne(id: string, { store, directory }: OtherAdministrators): Promise<boolean> {
  const others = directory.newestFirst().filter((other) => other.id !== id && isAdministrator(other));
  for (const other of others) {
    const found = await store.find(other.id).catch(undefinedIfBroken);
    if (found === undefined || !isAdministrator(found.consumer)) continue;
    await store.save({ ...found.consumer, administratorMark: randomUUID() }, found.version);
    return true;
  }
  return false;
}
