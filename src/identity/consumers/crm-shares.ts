import { randomUUID } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { Consumer } from './consumer.ts';
import type { ConsumerStore } from './consumer-store.ts';
import { undefinedIfBroken } from './stored-consumer.ts';

const lastRaisedName = 'crm-shares';
/** Per cent of the calls. */
const all = 100;

interface SharesOptions {
  secrets: Pick<SecretsManager, 'read' | 'write'>;
  store: Pick<ConsumerStore, 'find' | 'list' | 'save'>;
}

/** Throws `Problem` conflict where the shares of the other consumers leave less. Throws `SecretsUnavailable`. */
export async function requireFreeShare(
  { id, crmShare }: { id?: string; crmShare: number },
  { store }: Pick<SharesOptions, 'store'>,
): Promise<void> {
  let left = all;
  for (const other of await store.list()) if (other.id !== id) left -= other.crmShare ?? 0;
  if (crmShare <= left) return;
  throw new Problem(
    'conflict',
    `crmShare can be ${left} at most: the shares of the other consumers come to ${all - left}, and all together to ${all}.`,
  );
}

/**
 * Checks a consumer whose record was read before and is about to be written with a larger share, in a way that two raises
 * at the same time cannot both succeed, on whichever replica or command line. A raise writes who it is for. The next one
 * first marks that consumer's record: if it is not written yet, that write fails and its request starts again; if it is,
 * its share counts. Throws `VersionConflict` as well, where another raise came first.
 */
export async function holdShare(consumer: Consumer, options: SharesOptions): Promise<void> {
  const { secrets, store } = options;
  const { id, crmShare } = consumer;
  const last = await secrets.read(lastRaisedName);
  const lastId = last?.value.trim() ?? id;
  const other = lastId === id ? undefined : await store.find(lastId).catch(undefinedIfBroken);
  if (other !== undefined) await store.save({ ...other.consumer, shareMark: randomUUID() }, other.version);
  await requireFreeShare({ id, crmShare: crmShare ?? 0 }, options);
  await secrets.write(lastRaisedName, `${id}\n`, last?.version ?? null);
}
