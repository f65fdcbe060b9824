import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { sql } from 'kysely';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { preparedAs } from '../../../src/platform/store/statements.ts';
import { recordLog } from '../../support/log.ts';
import { startPostgres } from '../../support/postgres.ts';

const server = await startPostgres({ empty: true });

describe('prepared statements', { skip: server === undefined && 'no PostgreSQL' }, () => {
  const database = openPostgres({ url: server?.url ?? '', log: recordLog().log, maxConnections: 1 });
  after(async () => {
    await database.close();
    await server?.stop();
  });

  test('are those that say their name, in transactions too; what a value says is no name', async () => {
    const add = (one: number) => sql<{ sum: number }>`
      ${preparedAs('test.add')}
      select ${one}::integer + 1 as sum`;
    assert.equal((await add(1).execute(database.sql)).rows[0]?.sum, 2);
    await database.sql.transaction().execute(async (transaction) => {
      assert.equal((await add(2).execute(transaction)).rows[0]?.sum, 3);
    });
    await sql`select ${'/* prepared as other */'}::text`.execute(database.sql);
    const { rows } = await sql<{
      name: string;
      uses: number;
    }>`select name, (generic_plans + custom_plans)::integer as uses from pg_prepared_statements`.execute(
      database.sql,
    );
    assert.deepEqual(rows, [{ name: 'test.add', uses: 2 }]);
  });
});
