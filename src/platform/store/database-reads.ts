import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { deserialize, serialize } from 'node:v8';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely';
import { clearTimeout, setTimeout } from '../base/chance.ts';
import type { Database } from './database.ts';

/*
 * The embedded database belongs to one process. Others on this machine, run by the same user, may read it through that process:
 * it runs their statements, each in a transaction that can't write. They meet at a socket in the data folder.
 */

interface Statement {
  text: string;
  values: readonly unknown[];
}

type Answer = { rows: unknown[] } | { message: string };

export const readsSocket = 'database.sock';

const maxStatementBytes = 1_048_576;
const timeoutMs = 30_000;

/** Answers at the socket until it is closed. Throws where the path is too long for a socket. */
export async function serveReads(database: Database, path: string): Promise<{ close(): Promise<void> }> {
  // Left behind by a process that was killed.
  await rm(path, { force: true });
  const server = createServer({ requestTimeout: timeoutMs }, (asked, answer) => {
    void answerStatement(database, asked, answer);
  });
  server.listen(path);
  await once(server, 'listening');
  await chmod(path, 0o600);
  return {
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function answerStatement(
  database: Database,
  asked: IncomingMessage,
  answer: ServerResponse,
): Promise<void> {
  try {
    const length = Number(asked.headers['content-length'] ?? Number.POSITIVE_INFINITY);
    if (length > maxStatementBytes) throw new Error('The statement is too long.');
    const { text, values } = deserialize(await buffer(asked)) as Statement;
    const rows = await database.sql.transaction().execute(async (transaction) => {
      await sql`set transaction read only`.execute(transaction);
      return (await transaction.executeQuery(CompiledQuery.raw(text, [...values]))).rows;
    });
    answer.end(serialize({ rows } satisfies Answer));
  } catch (error) {
    asked.resume();
    answer.end(
      serialize({ message: error instanceof Error ? error.message : String(error) } satisfies Answer),
    );
  }
}

/** The database of the process that answers at the socket, for reading. Throws where none does. */
export async function openReads(path: string): Promise<Database> {
  const execute = (text: string, values: readonly unknown[] = []) => ask(path, { text, values });
  await execute('select 1');
  const connection = {
    executeQuery: ({ sql: text, parameters }: CompiledQuery) => execute(text, parameters),
    streamQuery: () => {
      throw new Error(readOnly);
    },
  } as DatabaseConnection;
  const database = new Kysely<unknown>({ dialect: dialectOf(connection) });
  return {
    kind: 'pglite',
    sql: database,
    bulk: database,
    execute,
    migrate: refuse,
    checkHealth: async () => void (await execute('select 1')),
    close: () => database.destroy(),
  };
}

const readOnly = 'While the gateway runs, commands can only read its database.';

async function refuse(): Promise<never> {
  throw new Error(readOnly);
}

function dialectOf(connection: DatabaseConnection): Dialect {
  const nothing = async () => {};
  return {
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (database) => new PostgresIntrospector(database),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createDriver: () => ({
      init: nothing,
      acquireConnection: async () => connection,
      releaseConnection: nothing,
      beginTransaction: refuse,
      commitTransaction: refuse,
      rollbackTransaction: refuse,
      destroy: nothing,
    }),
  };
}

async function ask(socketPath: string, statement: Statement): Promise<{ rows: unknown[] }> {
  const body = serialize(statement);
  const asked = request({ socketPath, method: 'POST', headers: { 'content-length': body.length } });
  const timer = setTimeout(
    () => asked.destroy(new Error("The running gateway isn't responding.")),
    timeoutMs,
  );
  try {
    asked.end(body);
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const answer = deserialize(await buffer(response)) as Answer;
    if ('rows' in answer) return answer;
    throw new Error(answer.message);
  } finally {
    clearTimeout(timer);
  }
}
