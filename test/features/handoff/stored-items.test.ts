import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { sql } from 'kysely';
import { meetItems } from '../../../src/features/handoff/stored-items.ts';
import { useTestDatabase } from '../../support/databases.ts';

const opened = useTestDatabase();

test('hand-offs that were not replaced are given back, and no other that somebody delivers', async () => {
  const [database] = opened.replicas;
  const [mine, taken, beside] = [randomUUID(), randomUUID(), randomUUID()];
  // What is stored in one statement has the same fence.
  await sql`
    insert into handoffs (external_id, type, status, consumer_id, request_id, trip_id, member_id, name, source, details, reference,
      may_exist, fence, lease_until, due_at, accepted_at)
    select id, 'quote', 'accepted', 'con', 'r', ${randomUUID()}, ${mine}, 'n', 's', '{}', 'HB-1', false, 1, to_timestamp(0), now(), now()
    from unnest(${[mine, taken, beside]}::uuid[]) as id`.execute(database.sql);
  const result = { name: 'another', source: 's', details: '{}' };
  const request = {
    type: 'quote',
    tripId: mine,
    memberId: mine,
    reference: 'HB-1',
    onRepeat: 'update',
    result,
  } as const;
  const meeting = await meetItems(
    database,
    [mine, taken].map((externalId) => ({ externalId, request, needsApproval: false })),
    {
      origin: {
        requestId: 'r',
        consumerId: 'con',
        consumerName: undefined,
        actor: undefined,
        subject: undefined,
      },
      ...{ continuedSince: undefined, holds: true, eventOf: () => undefined, refusalOf: () => undefined },
    },
  );
  // The lease on one has run out, and another process has both.
  for (const [id, fence] of [
    [taken, 3],
    [beside, 2],
  ] as const)
    await sql`
      update handoffs set fence = ${fence}, lease_until = now() + interval '1 hour' where external_id = ${id}`.execute(
      database.sql,
    );
  await meeting.undone();
  const { rows } = await sql<{ id: string }>`
    select external_id as id from handoffs where lease_until > now() order by external_id`.execute(
    database.sql,
  );
  assert.deepEqual(
    rows.map(({ id }) => id),
    [taken, beside].toSorted(),
  );
});
