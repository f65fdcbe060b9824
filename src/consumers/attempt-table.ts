import { sql } from 'kysely';
import type { Database } from '../store/database.ts';
import { firstAttemptIdOf } from './attempt-id.ts';
import type { Attempt, AttemptResult } from './attempts.ts';

/** An attempt with the id that fixes its place among all others. */
export interface StoredAttempt extends Attempt {
  id: string;
}

export interface AttemptQuery {
  consumer_id?: string;
  result?: AttemptResult;
  /** Milliseconds since 1970; earlier attempts are left out. */
  since?: number;
  /** Id of the last attempt of the page before. */
  after?: string;
  limit: number;
}

/** Rows that one statement deletes: a long one would hold locks and fill the log of the database. */
const deletedAtOnce = 10_000;

/** The attempts in the database. Every method throws what the database does. */
export interface AttemptTable {
  /** Adds what is not there yet, so that a batch whose outcome is unknown can be sent again. */
  add(attempts: readonly StoredAttempt[]): Promise<void>;
  /** Newest first. */
  list(query: AttemptQuery): Promise<StoredAttempt[]>;
  /** Deletes what is older; `now` in milliseconds since 1970. Returns how many. */
  deleteOlderThan(days: number, now: number): Promise<number>;
}

interface Row extends Omit<StoredAttempt, 'timestamp'> {
  attempted_at: Date;
}

export function createAttemptTable({ sql: db }: Database): AttemptTable {
  return {
    add: async (attempts) => {
      await sql`
        insert into authentication_attempts (id, attempted_at, consumer_id, endpoint, result, request_id)
        select id, "timestamp", consumer_id, endpoint, result, request_id
        from json_to_recordset(${JSON.stringify(attempts)}::json) as attempt (
          id uuid, "timestamp" timestamptz, consumer_id text, endpoint text, result text, request_id text)
        on conflict do nothing`.execute(db);
    },
    list: async ({ consumer_id, result, since, after, limit }) => {
      const conditions = [
        ...(consumer_id === undefined ? [] : [sql`consumer_id = ${consumer_id}`]),
        ...(result === undefined ? [] : [sql`result = ${result}`]),
        ...(since === undefined ? [] : [sql`id >= ${firstAttemptIdOf(since)}::uuid`]),
        ...(after === undefined ? [] : [sql`id < ${after}::uuid`]),
      ];
      const where = conditions.length === 0 ? sql`` : sql`where ${sql.join(conditions, sql` and `)}`;
      const { rows } = await sql<Row>`
        select id, attempted_at, consumer_id, endpoint, result, request_id from authentication_attempts ${where}
        order by id desc limit ${limit}`.execute(db);
      return rows.map(({ attempted_at, ...row }) => ({ ...row, timestamp: attempted_at.toISOString() }));
    },
    deleteOlderThan: async (days, now) => {
      const boundary = firstAttemptIdOf(now - days * 86_400_000);
      for (let deleted = 0; ; ) {
        const { numAffectedRows = 0n } = await sql`
          delete from authentication_attempts where id in (
            select id from authentication_attempts where id < ${boundary}::uuid order by id limit ${deletedAtOnce})`.execute(
          db,
        );
        deleted += Number(numAffectedRows);
        if (numAffectedRows < deletedAtOnce) return deleted;
      }
    },
  };
}
