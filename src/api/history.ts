import type { Consumer } from '../identity/consumers/consumer.ts';
import type { Call } from '../platform/base/call.ts';
import { defineOffer } from '../platform/base/offers.ts';

export const historyKinds = [
  ...['requested', 'awaiting_approval', 'approved', 'rejected', 'accepted', 'created', 'updated', 'step'],
  ...['delivered', 'delivery_failed', 'failed', 'cancelled', 'deleted', 'restored'],
] as const;
export type HistoryKind = (typeof historyKinds)[number];

export interface HistorySubject {
  type: 'quote' | 'booking' | 'reservation' | 'handoff';
  /** UUID in lower case. */
  id: string;
}

export interface HistoryReader {
  consumer: Consumer;
  call: Call;
}

export interface Doer {
  consumer_id: string;
  consumer_name: string | null;
  actor: string | null;
  verified: boolean;
}

/** A field that changed. A value that is not known, or too long, is left out. */
export interface FieldChange {
  field: string;
  from?: unknown;
  to?: unknown;
}

export interface HistoryEntry {
  /** RFC 3339. */
  at: string;
  kind: HistoryKind;
  /** Null where that is not known, or hidden. */
  by: Doer | null;
  changes: readonly FieldChange[] | null;
  endpoint: string | null;
}

export interface FoundEntry extends Omit<HistoryEntry, 'by'> {
  by: (Omit<Doer, 'verified'> & { verified?: boolean }) | null;
  once?: string;
  /** The CRM's time, which is a whole second: it happened within that. */
  isWholeSecond?: true;
  isUnproven?: true;
  /** Asked for by a consumer whose records the reader does not see. */
  isOfOther?: true;
}

/** All that there is, in any order, as the reader may see it; nothing where that does not exist for it. Throws `Problem`. */
export type HistorySource = (subject: HistorySubject, reader: HistoryReader) => Promise<FoundEntry[]>;

export const historySources = defineOffer<readonly HistorySource[]>('sources of histories');

export const historySubjects = defineOffer<readonly HistorySubject['type'][]>('what has a history');

/** Entries that a source gives at most: the newest. */
export const mostEntries = 1000;

export function entry(
  at: Date,
  kind: HistoryKind,
  rest: Partial<Omit<FoundEntry, 'at' | 'kind'>> = {},
): FoundEntry {
  return { at: at.toISOString(), kind, by: null, changes: null, endpoint: null, ...rest };
}
