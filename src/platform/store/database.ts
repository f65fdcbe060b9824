import type { Kysely } from 'kysely';

export interface Database {
  readonly kind: 'pglite' | 'postgres';
  /** For what requests wait for: a database that does not answer in 2.5 s counts as unavailable. */
  readonly sql: Kysely<unknown>;
  /** For statements of jobs that search whole tables: they may take longer. */
  readonly bulk: Kysely<unknown>;
  /** Runs SQL as it is: one statement with parameters, or several without. For libraries that bring their own SQL. */
  execute(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  /** Runs several statements that take no parameters, in one transaction that only one process is in at a time. */
  migrate(statements: (applied: readonly AppliedMigration[]) => string[]): Promise<void>;
  /** Resolves when the database answers. Throws. */
  checkHealth(): Promise<void>;
  close(): Promise<void>;
}

export interface AppliedMigration {
  version: number;
  /** Newest migration of the oldest program that runs on it; null: not known. */
  oldest_program: number | null;
}
