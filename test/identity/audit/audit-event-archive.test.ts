import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEvent } from '../../../src/identity/audit/audit-event.ts';
import { AuditEventArchive } from '../../../src/identity/audit/audit-event-archive.ts';
import { recordLog } from '../../support/log.ts';

const newEvent = (id: string) =>
  ({
    ...{ id, timestamp: new Date().toISOString(), action: 'consumer.updated', changes: [] },
    actor: { type: 'service', id: 'service' },
  }) as unknown as AuditEvent;

test('an event that is kept again while a statement with it fails is stored, and both callers learn of it', async () => {
  const [first, second] = [newEvent('a'), newEvent('b')];
  const calls: { ids: string[]; end: PromiseWithResolvers<void> }[] = [];
  const called = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const archive = new AuditEventArchive({
    table: {
      add: async (events: readonly AuditEvent[]) => {
        const call = { ids: events.map(({ id }) => id), end: Promise.withResolvers<void>() };
        called[calls.push(call) - 1]?.resolve();
        await call.end.promise;
        return call.ids;
      },
    },
    log: recordLog().log,
    retentionDays: 90,
  });
  const before = archive.keep([first]);
  await called[0]?.promise;
  const again = archive.keep([first, second]);
  calls[0]?.end.reject(new Error('the database is unavailable'));
  await called[1]?.promise;
  assert.deepEqual(calls[1]?.ids, ['a', 'b']);
  calls[1]?.end.resolve();
  await Promise.all([before, again]);
  await archive.stop();
});
