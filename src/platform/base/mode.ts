import type { Call, Visible } from './call.ts';

export const modes = ['live', 'test'] as const;
export type Mode = (typeof modes)[number];

/** How the ids of test consumers begin, and no others: whatever is stored with the id of its consumer has its mode, too. */
export const testIdStart = 'con_test00';

/** The service's own work is live. */
export function modeOf(consumerId: string | null | undefined): Mode {
  return consumerId?.startsWith(testIdStart) ? 'test' : 'live';
}

/**
 * The line between live and test: of two adapters of a port, the one that work for this consumer is done with. It goes by the
 * consumer's id alone, so it holds as well for what is done later, by another process, or after the consumer was revoked.
 */
export function adapterFor<T>({ consumerId }: Pick<Call, 'consumerId'>, adapters: Record<Mode, T>): T {
  return adapters[modeOf(consumerId)];
}

/**
 * Whether who sees these records sees one that this consumer made: live consumers see nothing of test consumers. In SQL:
 * `isRowVisible` in statements.ts.
 */
export function isRecordVisible(visible: Visible, consumerId: string | null | undefined): boolean {
  return visible === 'all' ? modeOf(consumerId) === 'live' : visible.consumerId === consumerId;
}

/**
 * For work of the service itself that began with a consumer's request: a test consumer's is done in its world, a live one's in
 * nobody's name.
 */
export function ownWorldOf(consumerId: string): string | undefined {
  return modeOf(consumerId) === 'test' ? consumerId : undefined;
}

/** Throws before anything of a test consumer reaches a system of others: the caller has the wrong adapter. */
export function requireLive({ consumerId }: Pick<Call, 'consumerId'>): void {
  if (modeOf(consumerId) === 'test')
    throw new Error('the work of a test consumer must not leave the service');
}
