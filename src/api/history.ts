import type { Consumer } from '../identity/consumers/consumer.ts';
import type { Call } from '../platform/base/call.ts';
import { defineOffer } from '../platform/base/offers.ts';

export const historyKinds = [
  ...['requested', 'awaiting_approval', 'approved', 'rejected', 'accepted', 'created', 'updated', 'step'],
  ...['delivered', 'delivery_failed', 'failed', 'cancelled', 'deleted', 'restored'],
] as const;
export type HistoryKind = (typeof historyKinds)[number];

/** What a history is about. */
export interface HistorySubject {
  type: 'quote' | 'booking' | 'reservation' | 'handoff';
  /** UUID in lower case. */
  id: string;
}

/** Who reads a history. */
export interface HistoryReader {
  consumer: Consumer;
  call: Call;
}

/** Who did it. */
export interface Doer {
  consumer_id: string;
  consumer_name: string | null;
  /** The person, as X-Actor named them, or as they have signed in. */
  actor: string | null;
  /** The person has signed in. */
  verified: boolean;
}

/** A field that changed. A value that is not known, or too long, is left out. */
export interface FieldChange {
  field: string;
  from?: unknown;
  to?: unknown;
}

/** What happened, as it is answered. */
export interface HistoryEntry {
  /** RFC 3339. */
  at: string;
  kind: HistoryKind;
  /** Null where that is not known, or hidden. */
  by: Doer | null;
  /** Of an update or a step; null where that is not known, and for all else. */
  changes: readonly FieldChange[] | null;
  /** The operation of a request; the id of the webhook endpoint of a delivery. */
  endpoint: string | null;
}

/** What a source has found of it. */
export interface FoundEntry extends Omit<HistoryEntry, 'by'> {
  /** Where `verified` is left out, it is not known here. */
  by: (Omit<Doer, 'verified'> & { verified?: boolean }) | null;
  /** Of entries with the same `once`, the first source's is shown. */
  once?: string;
  /** The CRM's time, which is a whole second: it happened within that. */
  isWholeSecond?: true;
  /** Does not prove that a record exists that the reader may see. */
  isUnproven?: true;
}

/** All that there is, in any order, as the reader may see it; nothing where that does not exist for it. Throws `Problem`. */
export type HistorySource = (subject: HistorySubject, reader: HistoryReader) => Promise<FoundEntry[]>;

/** What features know of the history of a record. */
export const historySources = defineOffer<readonly HistorySource[]>('sources of histories');

/** What can be read, and so has a history. */
export const historySubjects = defineOffer<readonly HistorySubject['type'][]>('what has a history');

/** Entries that a source gives at most: the newest. */
export const mostEntries = 1000;

/** An entry that has nothing but these parts. */
export function entry(
  at: Date,
  kind: HistoryKind,
  rest: Partial<Omit<FoundEntry, 'at' | 'kind'>> = {},
): FoundEntry {
  return { at: at.toISOString(), kind, by: null, changes: null, endpoint: null, ...rest };
}
