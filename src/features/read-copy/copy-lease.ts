import { sql } from 'kysely';
import type { CopyLease } from '../events/copy-writer.ts';

/**
 * Runs in the statement that takes the reader's lease: a copy written under the previous fence continues under the new one;
 * one that missed a fence is filled again.
 */
export const copyLease: CopyLease = {
  follow: sql`kept as (
    update copy_state set fence = taken.fence from taken where copy_state.fence = taken.fence - 1
  )`,
  age: sql`(select extract(epoch from now() - kept_through)::float8 from copy_state where places is null)`,
};
