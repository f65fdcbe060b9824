import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely';
import { Pool, type PoolConfig, type QueryConfig } from 'pg';
import { monotonicMs } from '../base/chance.ts';
import type { Log } from '../observability/log.ts';
import type { AppliedMigration, Database } from './database.ts';
import { isHung, isReadOnly } from './failures.ts';
import { createHistory, selectApplied } from './migrate.ts';

/** Number of the advisory lock under which one process migrates; any constant will do. */
const migrationLock = 4_702_118_903;

/** How long a request waits for the database at most, connecting included, in milliseconds. */
const longestWaitMs = 2500;
/** Limits that the server keeps itself, so that a statement is really over when its request is refused. */
const requestLimits = {
  statement_timeout: 2000,
  // A request that waits for another's row must not hold up the others that share its statement.
  lock_timeout: 1000,
  // A process that was stopped in the middle of a transaction keeps its rows no longer.
  idle_in_transaction_session_timeout: 5000,
};
/** For how long after a statement without an answer no request waits for another one, in milliseconds. */
const pauseMs = 1000;
const jobConnections = 4;
/** Without a limit for its statements, nor for the wait for another process's: keep-alive notices a server that is gone. */
const migrationLimits = {
  max: 1,
  connectionTimeoutMillis: 3000,
  keepAliveInitialDelayMillis: 10_000,
  idle_in_transaction_session_timeout: 10_000,
};
/**
 * How long a migration waits for a table at most, in milliseconds: requests of other replicas wait behind it. Longer than a
 * statement of a job may take.
 */
const longestLockMs = 12_000;
/** Fails as a write would, so that a connection that a failover has left on the wrong server is closed. */
const refuseReadOnly = `
  do $$ begin
    if current_setting('transaction_read_only') = 'on' then
      raise 'the database is read-only' using errcode = 'read_only_sql_transaction';
    end if;
  end $$`;
/** As `preparedAs` of statements.ts writes it. */
const preparedAs = /^\s*\/\* prepared as (\S+) \*\//;

interface PostgresOptions {
  /** May hold a password; never logged. */
  url: string;
  log: Log;
  /** Connections at most; more wait. */
  maxConnections?: number;
}

/**
 * Connects to PostgreSQL; connections are made when they are needed. Jobs have connections of their own, so that none
 * of theirs, slow or hung, keeps a request waiting.
 */
export function openPostgres({ url, log, maxConnections = 10 }: PostgresOptions): Database {
  const open = (options: PoolConfig) => {
    const pool = new Pool({
      connectionString: url,
      keepAlive: true,
      application_name: 'handoff-gateway',
      ...options,
    });
    // An idle connection that breaks is replaced on next use; without a listener the process would end.
    pool.on('error', (error) => log.warn({ err: error }, 'an idle database connection broke'));
    // Nor while it is in use: its statement fails by itself, and the event on top of that would end the process.
    pool.on('connect', (client) => client.on('error', () => {}));
    return pool;
  };
  const requests = open({ max: maxConnections, connectionTimeoutMillis: longestWaitMs, ...requestLimits });
  const jobs = open({
    max: jobConnections,
    connectionTimeoutMillis: 3000,
    statement_timeout: 10_000,
    idle_in_transaction_session_timeout: 10_000,
    query_timeout: 12_000,
  });
  const bounded = boundedPool(requests, longestWaitMs);
  return {
    kind: 'postgres',
    sql: new Kysely<unknown>({ dialect: new PostgresDialect({ pool: bounded }) }),
    bulk: new Kysely<unknown>({ dialect: new PostgresDialect({ pool: boundedPool(jobs, 12_000) }) }),
    execute: (text, values) => jobs.query(text, values),
    migrate: (statements) => migrateOn(open(migrationLimits), statements),
    checkHealth: async () => {
      const client = await bounded.connect();
      try {
        await client.query(refuseReadOnly, []);
      } finally {
        client.release();
      }
    },
    close: async () => void (await Promise.all([requests.end(), jobs.end()])),
  };
}

/** Ends the pool. */
async function migrateOn(pool: Pool, statements: Parameters<Database['migrate']>[0]): Promise<void> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    // Roles may have limits of their own.
    await client.query('begin; set local statement_timeout = 0; set local lock_timeout = 0');
    await client.query(`select pg_advisory_xact_lock(${migrationLock})`);
    await client.query(`set local lock_timeout = ${longestLockMs}`);
    await client.query(createHistory);
    const { rows } = await client.query<AppliedMigration>(selectApplied);
    for (const statement of statements(rows)) await client.query(statement);
    await client.query('commit');
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    // A connection in the middle of a failed transaction is not given back but closed.
    client.release(broken);
    await pool.end();
  }
}

/**
 * The pool as Kysely sees it. All that is done with a connection, getting it included, has this many milliseconds. A
 * statement that got no answer by then leaves its connection hanging, and the next user of it would wait as long: such a
 * connection takes no further statement, not even a rollback, and is closed rather than given back. For a second, or
 * until another statement is answered, every other request that needs the database is refused without waiting. A
 * connection to a server that takes no writes is closed too: a new one may find the server that does.
 */
function boundedPool(pool: Pool, ms: number): PostgresPool {
  let hungAt = Number.NEGATIVE_INFINITY;
  const noteHang = (error: unknown) => {
    if (isHung(error)) hungAt = monotonicMs();
    throw error;
  };
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      const started = monotonicMs();
      if (started - hungAt < pauseMs) throw new Error('the last statement met a timeout just now');
      const client = await pool.connect().catch(noteHang);
      let hung: Error | undefined;
      let refused: Error | undefined;
      const query = async (text: string, values: unknown[]) => {
        if (hung) throw hung;
        const [, name] = preparedAs.exec(text) ?? [];
        const query_timeout = Math.max(1, started + ms - monotonicMs());
        const config = { ...(name !== undefined && { name }), text, values, query_timeout };
        try {
          const result = await client.query(config as QueryConfig);
          hungAt = Number.NEGATIVE_INFINITY;
          return result;
        } catch (error) {
          if (error instanceof Error && error.message === 'Query read timeout') hung = error;
          if (isReadOnly(error)) refused = error as Error;
          return hung ? noteHang(error) : Promise.reject(error);
        }
      };
      return { query, release: () => client.release(hung ?? refused) } as unknown as PostgresPoolClient;
    },
  };
}
