import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { leaseEnd, leasesOf } from '../../platform/store/leases.ts';
import { changeInChunks } from '../../platform/store/statements.ts';
import type { ClaimKey } from './keyed-request.ts';

/*
 * A write with If-Match must be alone with its record from before it reads the record until it has written: else two
 * that read the same state would both find their tag there. So it takes a lease on the record, over all replicas:
 *
 *   1. It takes the lease. It is refused while another conditional write has the lease.
 *   2. It checks for unconditional changes of the record that are under way. It is refused while there is one.
 *   3. It reads, compares and writes.
 *
 * An unconditional change takes no lease: many may run at once. Its claim names the record (`overwrites`), and a later
 * statement, just before it writes, does nothing while the record is leased. So at least one of the two sees the other: a
 * change whose later statement came before the lease had named its record by then. It is named with the claim; where the
 * caller may see some records only, after the look-up, so that nobody holds up writes to records of others. A deletion
 * without If-Match needs none of this: it does not write where the record is gone.
 *
 * A trip that updates items takes a lease too, and so does a stored hand-off, which has no claim and ends its lease itself.
 *
 * A lease ends with its claim, when that is completed, without a statement of its own. The lease of a failed write is
 * ended, unless nobody knows whether the write took effect; then, as after its owner's death, it runs out. An owner that
 * wakes up after that does not write, since its claim, which is older, has run out too.
 */

const deletedAtOnce = 5000;

const recordLease = leasesOf({
  table: 'record_leases',
  row: 'l',
  key: ['record'],
  leasedUntil: 'leased_until',
});

export class LeasesTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * An owner's repeat gets them again. False while another claim has one of the records: then none is taken or renewed, since two that
   * each had a part would keep each other waiting. Of two at the same moment each may be left with a part, until that runs out.
   */
  async take(records: readonly string[], { consumerId, key }: ClaimKey, fence: string): Promise<boolean> {
    const isOthers = sql`${isLeased}
      and not (l.consumer_id = ${consumerId} and l.key = ${key}::uuid and l.fence <= ${fence}::bigint)`;
    const { numAffectedRows } = await sql`
      insert into record_leases as l (record, consumer_id, key, fence, leased_until)
      select record, ${consumerId}, ${key}::uuid, ${fence}::bigint, ${leaseEnd}
      from unnest(${records}::text[]) as wanted (record)
      where not exists (select from record_leases l where l.record = any(${records}::text[]) and ${isOthers})
      order by record
      on conflict (record) do update set consumer_id = excluded.consumer_id, key = excluded.key,
        fence = excluded.fence, leased_until = excluded.leased_until
      where not (${isOthers})
    `.execute(this.#database.sql);
    return numAffectedRows === BigInt(records.length);
  }

  async areOverwritten(records: readonly string[]): Promise<boolean> {
    const { rows } = await sql`
      select 1 from idempotency_claims
      where overwrites = any(${records}::text[]) and completed_at is null and lease_until > now() limit 1
    `.execute(this.#database.sql);
    return rows.length > 0;
  }

  async end(records: readonly string[], { consumerId, key }: ClaimKey, fence: string): Promise<void> {
    await sql`
      delete from record_leases l
      where record = any(${records}::text[]) and consumer_id = ${consumerId} and key = ${key} and ${recordLease.isOf(fence)}
    `.execute(this.#database.sql);
  }

  async clear(signal?: AbortSignal): Promise<void> {
    const statement = (limit: number) => sql`
      delete from record_leases where record in (
        select record from record_leases l where ${recordLease.isOver} limit ${limit} for update skip locked)`;
    await changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

/**
 * Condition: the lease `l` is in force: not run out, and its claim not completed. A completed claim is
 * taken again only after its retention or its window, which are longer than a lease, so an older snapshot is never wrong.
 */
export const isLeased = sql`(not ${recordLease.isOver} and not exists (
  select 1 from idempotency_claims o
  where o.consumer_id = l.consumer_id and o.key = l.key and o.fence >= l.fence and o.completed_at is not null))`;
