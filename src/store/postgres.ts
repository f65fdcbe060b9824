import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely';
import { Pool } from 'pg';
import type { Log } from '../observability/log.ts';
import type { Database, Tables } from './database.ts';
import { createHistory, selectVersions } from './migrate.ts';

/** Number of the advisory lock under which one process migrates; any constant will do. */
const migrationLock = 4_702_118_903;

export interface PostgresOptions {
  /** May hold a password; never logged. */
  url: string;
  log: Log;
  /** Connections at most; more wait. */
  maxConnections?: number;
}

/** Connects to PostgreSQL; connections are made when they are needed. */
export function openPostgres({ url, log, maxConnections = 10 }: PostgresOptions): Database {
  const pool = new Pool({
    connectionString: url,
    max: maxConnections,
    connectionTimeoutMillis: 3000,
    // A statement that hangs would hold a request's connection for ever.
    statement_timeout: 10_000,
    query_timeout: 12_000,
    keepAlive: true,
    application_name: 'handoff-gateway',
  });
  // An idle connection that breaks is replaced on next use; without a listener the process would end.
  pool.on('error', (error) => log.warn({ err: error }, 'an idle database connection broke'));
  // Nor while it is in use: its statement fails by itself, and the event on top of that would end the process.
  pool.on('connect', (client) => client.on('error', () => {}));
  return {
    kind: 'postgres',
    sql: new Kysely<Tables>({ dialect: new PostgresDialect({ pool: dropHungClients(pool) }) }),
    execute: (text, values) => pool.query(text, values),
    migrate: async (statements) => {
      const client = await pool.connect();
      let broken: Error | undefined;
      try {
        // Waiting for another process that migrates may take longer than any other statement.
        await client.query('begin; set local statement_timeout = 0');
        await client.query(`select pg_advisory_xact_lock(${migrationLock})`);
        await client.query(createHistory);
        const { rows } = await client.query<{ version: number }>(selectVersions);
        for (const statement of statements(rows.map(({ version }) => version))) await client.query(statement);
        await client.query('commit');
      } catch (error) {
        broken = error as Error;
        throw error;
      } finally {
        // A connection in the middle of a failed transaction is not given back but closed.
        client.release(broken);
      }
    },
    checkHealth: async () => void (await pool.query('select 1')),
    close: () => pool.end(),
  };
}

/**
 * A statement that begins with `/* name *\/` is prepared under that name, once for each connection: the server need not
 * parse and plan it each time. For those on the hot path whose text never varies.
 */
function preparedName(text: string): string | undefined {
  return /^\/\* ([a-z.]+) \*\//.exec(text)?.[1];
}

/**
 * The pool as Kysely sees it. A statement that got no answer in time leaves its connection hanging, and whoever got it
 * next would wait as long: such a connection is closed rather than given back.
 */
function dropHungClients(pool: Pool): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      const client = await pool.connect();
      let hung: Error | undefined;
      const query = async (text: string, values: unknown[]) => {
        try {
          const name = preparedName(text);
          return await (name === undefined
            ? client.query(text, values)
            : client.query({ name, text, values }));
        } catch (error) {
          if (error instanceof Error && error.message === 'Query read timeout') hung = error;
          throw error;
        }
      };
      return { query, release: () => client.release(hung) } as unknown as PostgresPoolClient;
    },
  };
}
