import { sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { claimant } from './keyed-request.ts';

export interface KnownRequest {
  consumer_id: string;
  actor: string | null;
  verified: boolean;
  operation: string;
  created_at: Date;
  is_refused: boolean;
}

/** The newest requests that are about a record, of one of these types, whatever became of them. Throws `store_unavailable`. */
export async function requestsAbout(
  database: Database,
  recordId: string,
  types: readonly string[],
  limit: number,
): Promise<KnownRequest[]> {
  const statement = sql<KnownRequest>`
    select case when starts_with(consumer_id, ${claimant}) then substr(consumer_id, ${claimant.length + 1}) else consumer_id
      end as consumer_id, actor, actor_verified as verified, operation, created_at, coalesce(response_status >= 400, false) as is_refused
    from idempotency_claims
    where record_id = ${recordId} or records && ${types.map((type) => `${type} ${recordId}`)}::text[]
    order by created_at desc limit ${limit}`;
  const { rows } = await orUnavailable(() => statement.execute(database.sql), {
    keeps: 'keeps the requests',
  });
  return rows;
}
