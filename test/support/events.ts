import { Client } from 'pg';

export interface StoredEvent {
  webhook_id: string;
  member_id: string | null;
  state: string;
  attempts: number;
  last_error: string | null;
  came_late: boolean;
}

/** The received webhooks as they stand in a PostgreSQL database. */
export interface Events {
  all(): Promise<StoredEvent[]>;
  /** Makes all that is received due, as time would. */
  makeDue(): Promise<void>;
  /** Runs any statement. */
  run(statement: string, values?: unknown[]): Promise<void>;
  close(): Promise<void>;
}

export async function openEvents(databaseUrl: string): Promise<Events> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  return {
    all: async () => {
      const { rows } = await client.query<StoredEvent>(
        'select webhook_id, member_id, state, attempts, last_error, came_late from webhook_events order by sequence',
      );
      return rows;
    },
    makeDue: async () =>
      void (await client.query("update webhook_events set due_at = now() where state = 'received'")),
    run: async (statement, values) => void (await client.query(statement, values)),
    close: () => client.end(),
  };
}
