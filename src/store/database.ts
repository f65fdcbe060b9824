import type { Generated, JSONColumnType, Kysely } from 'kysely';

/** The tables, as the migrations make them. */
export interface Tables {
  idempotency_claims: {
    consumer_id: string;
    key: string;
    fingerprint: Uint8Array;
    operation: string;
    external_id: string;
    entity_tag_before: string | null;
    fence: Generated<string>;
    lease_until: Date;
    created_at: Date;
    last_attempt_at: Date;
    completed_at: Date | null;
    response_status: number | null;
    response_headers: JSONColumnType<Record<string, string>> | null;
    response_body: string | null;
  };
  webhook_events: {
    webhook_id: string;
    sequence: Generated<string>;
    type: string;
    event_at: Date;
    member_id: string | null;
    payload: string;
    state: 'received' | 'processed' | 'ignored' | 'dead';
    attempts: Generated<number>;
    due_at: Date;
    last_error: string | null;
    received_at: Date;
    finished_at: Date | null;
    came_late: Generated<boolean>;
  };
  authentication_attempts: {
    id: string;
    attempted_at: Date;
    consumer_id: string | null;
    endpoint: string;
    result: string;
    request_id: string;
  };
}

/** The port to the database; every adapter speaks PostgreSQL's SQL. */
export interface Database {
  readonly kind: 'pglite' | 'postgres';
  readonly sql: Kysely<Tables>;
  /** Runs SQL as it is: one statement with parameters, or several without. For libraries that bring their own SQL. */
  execute(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  /** Runs several statements that take no parameters, in one transaction that only one process is in at a time. */
  migrate(statements: (appliedVersions: readonly number[]) => string[]): Promise<void>;
  /** Resolves when the database answers. Throws. */
  checkHealth(): Promise<void>;
  close(): Promise<void>;
}
