import type { CompiledQuery, QueryResult } from 'kysely';
import type { Database } from '../../src/platform/store/database.ts';

/** A database's queries, each of which `executeQuery` gets in place of the database. */
export function executedBy(
  queries: Database['sql'],
  executeQuery: (query: CompiledQuery) => Promise<QueryResult<unknown>>,
): Database['sql'] {
  const executor = queries.getExecutor();
  const getExecutor = () => ({
    transformQuery: executor.transformQuery.bind(executor),
    compileQuery: executor.compileQuery.bind(executor),
    executeQuery,
  });
  return { getExecutor } as unknown as Database['sql'];
}
