import type { RawBuilder } from 'kysely';
import { defineOffer } from '../../platform/base/offers.ts';
import type { Database } from '../../platform/store/database.ts';
import type { ChangedRecord, IdRange } from '../../records/changes.ts';
import type { Resource } from '../../records/resource.ts';

/** Another reader has taken over, and what this one has found is for nobody. */
export class Replaced extends Error {}

export type Fenced = (work: (transaction: Database['sql']) => Promise<void>) => Promise<void>;

export interface CopyLease {
  /**
   * Appended to the `with` that defines `taken (fence)`: carries the copy to the new fence if it was written under the
   * previous one.
   */
  follow: RawBuilder<unknown>;
  /** Seconds since the poll began that the copy is from; null where there is no complete one. */
  age: RawBuilder<number | null>;
}

export interface CopyWriter {
  readonly lease: CopyLease;
  /** Before a poll reads anything; `hasGap`: changes were missed. Throws `Replaced`, and what the database does. */
  begin(fence: string, hasGap: boolean, fenced: Fenced): Promise<void>;
  keep(transaction: Database['sql'], records: readonly ChangedRecord[]): Promise<void>;
  /** Reads what else it needs of these resources, for some seconds; whether there is more. Throws as `begin`. */
  work(fenced: Fenced, read: readonly Resource[], stopping: AbortSignal): Promise<boolean>;
  compare(transaction: Database['sql'], range: IdRange, ids: readonly string[]): Promise<void>;
  /** How old the copy is now, in seconds; null while it is filled. */
  reportAge(seconds: number | null): void;
  /** Ends a poll that has read all changes of these resources. */
  complete(transaction: Database['sql'], fence: string, read: readonly Resource[]): Promise<void>;
}

export const copyWriterOffer = defineOffer<CopyWriter>('the copy of the records');
