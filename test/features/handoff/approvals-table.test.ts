import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { hasEnded } from '../../../src/features/handoff/approvals-table.ts';
import { useTestDatabase } from '../../support/databases.ts';

describe('a hand-off has ended by itself', () => {
  const opened = useTestDatabase();

  /** Times are in seconds from the moment of the statement, which all of it has. */
  const cases: [
    what: string,
    ended: boolean,
    row: [status: string, age: number, left: number | null, mayExist: boolean, leased: number],
  ][] = [
    ['waiting for a moment', false, ['awaiting_approval', 0, null, false, 0]],
    ['waiting for seven days', true, ['awaiting_approval', 7 * 86_400, null, false, 0]],
    ['waiting for a second less', false, ['awaiting_approval', 7 * 86_400 - 1, null, false, 0]],
    ['whose offer is good for a second', false, ['awaiting_approval', 0, 1, false, 0]],
    ['whose offer ends now', true, ['awaiting_approval', 0, 0, false, 0]],
    ['whose offer ends now, though a call may have made it', true, ['awaiting_approval', 0, 0, true, 9]],
    ['accepted, without an end', false, ['accepted', 8 * 86_400, null, false, 0]],
    ['accepted, whose offer ends now', true, ['accepted', 0, 0, false, 0]],
    ['accepted, which a call may have made', false, ['accepted', 0, 0, true, 0]],
    ['accepted, which is being delivered', false, ['accepted', 0, 0, false, 1]],
    ['created, whose offer has ended', false, ['created', 8 * 86_400, -1, false, 0]],
  ];
  for (const [what, ended, [status, age, left, mayExist, leased]] of cases)
    test(`${what}: ${ended}`, async () => {
      const after = (seconds: number | null) => sql`now() + make_interval(secs => ${seconds}::integer)`;
      const { rows } = await sql<{ ended: boolean }>`select ${hasEnded} as ended from (select
        ${status}::text as status, ${after(-age)} as accepted_at, ${after(left)} as valid_until,
        ${mayExist}::boolean as may_exist, ${after(leased)} as lease_until) h`.execute(
        opened.replicas[0].sql,
      );
      assert.deepEqual(rows, [{ ended }]);
    });
});
