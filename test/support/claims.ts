import { Client } from 'pg';

export interface ClaimState {
  external_id: string;
  fence: string;
  completed: boolean;
  response_body: string | null;
}

/** The claims of the idempotency ledger as they stand in a PostgreSQL database. */
export interface Claims {
  find(key: string): Promise<ClaimState | undefined>;
  /** Ends the leases of a claim, its own and that on its record, as time would. */
  endLease(key: string): Promise<void>;
  close(): Promise<void>;
}

export const endLeaseSql = 'update idempotency_claims set lease_until = now() where key = $1';

export async function openClaims(databaseUrl: string): Promise<Claims> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  return {
    find: async (key) => {
      const { rows } = await client.query<ClaimState>(
        `select external_id, fence, completed_at is not null as completed, response_body
         from idempotency_claims where key = $1`,
        [key],
      );
      return rows[0];
    },
    endLease: async (key) => {
      await client.query(endLeaseSql, [key]);
      await client.query('update record_leases set leased_until = now() where key = $1', [key]);
    },
    close: () => client.end(),
  };
}
