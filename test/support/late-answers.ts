import type { KyselyPlugin } from 'kysely';
import { type Chance, replaceChance } from '../../src/platform/base/chance.ts';
import type { Database } from '../../src/platform/store/database.ts';

/**
 * A database as a process sees it that stands still for `ms` milliseconds between each statement with this text and its
 * answer: the answer is read at once, and the clocks of this process are ahead from then on.
 */
export function lateAnswers(database: Database, text: string, ms: number): Database {
  const late = new WeakSet<object>();
  const plugin: KyselyPlugin = {
    transformQuery: ({ node, queryId }) => {
      if (JSON.stringify(node).includes(text)) late.add(queryId);
      return node;
    },
    transformResult: async ({ result, queryId }) => {
      if (late.has(queryId)) standStill(ms);
      return result;
    },
  };
  return {
    ...database,
    sql: database.sql.withPlugin(plugin),
    bulk: database.bulk.withPlugin(plugin),
    execute: (statement, values) => database.execute(statement, values),
  };
}

/** As if this process had stood still for so many milliseconds until now. */
export function standStill(ms: number): void {
  const before: Chance = replaceChance({} as Chance);
  replaceChance({ ...before, now: () => before.now() + ms });
}
