import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { AcceptedHandoffs, type HandoffsOptions } from '../../../src/features/handoff/handoffs.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import type { Problem } from '../../../src/platform/base/problem.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { recordLog } from '../../support/log.ts';

test('a hand-off whose storing has no answer names the record to look for', async () => {
  const database = openPostgres({ url: 'postgres://127.0.0.1:1/none', log: recordLog().log });
  const limits = { queueLimit: 1, queueLimitPerConsumer: 1 };
  const options = { database, mode: 'live', ...limits } as unknown as HandoffsOptions;
  const handoffs = new AcceptedHandoffs(options);
  const externalId = randomUUID();
  const id = randomUUID();
  const result = { name: 'n', source: 's', details: '{}' };
  const wanted = { isContinued: false, needsApproval: false, mayBeAccepted: true, waitSeconds: 0 };
  const request = { type: 'quote', tripId: id, memberId: id, result } as const;
  const asked = handoffs.handOff(request, { externalId, ...wanted }, startCall('r'));
  const { code, facts } = await asked.then(
    () => assert.fail(),
    (error: Problem) => error,
  );
  assert.deepEqual([code, facts.outcomeUnknown, facts.externalId], ['store_unavailable', true, externalId]);
  await database.close();
});
