import { defineOffer } from '../../platform/base/offers.ts';
import type { Database } from '../../platform/store/database.ts';
import type { ChangedRecord, IdRange } from '../../records/changes.ts';

/** Another reader has taken over, and what this one has found is for nobody. */
export class Replaced extends Error {}

/** Work in a transaction that is rolled back where another reader has taken over. */
export type Fenced = (work: (transaction: Database['sql']) => Promise<void>) => Promise<void>;

/** Keeps all that the reader sees, in the transactions that store what comes of it. */
export interface Keeper {
  /** Before a turn reads anything; `isTorn`: changes were missed. Throws `Replaced`, and what the database does. */
  begin(fence: string, isTorn: boolean, fenced: Fenced): Promise<void>;
  /** Keeps the records of a piece. */
  keep(transaction: Database['sql'], records: readonly ChangedRecord[]): Promise<void>;
  /** Reads what else it needs, for some seconds; whether there is more. Throws as `begin`. */
  work(fenced: Fenced, stopping: AbortSignal): Promise<boolean>;
  /** The CRM has exactly these ids in this range. */
  compare(transaction: Database['sql'], range: IdRange, ids: readonly string[]): Promise<void>;
  /** How old the copy is now, in seconds; null while it is filled. */
  reportAge(seconds: number | null): void;
  /** All that had changed when this turn began is kept. */
  complete(transaction: Database['sql'], fence: string): Promise<void>;
}

export const copyWriter = defineOffer<Keeper>('the copy of the records');
