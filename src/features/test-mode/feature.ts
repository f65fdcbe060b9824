import { forgetClaims } from '../../api/idempotency/claims-table.ts';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { testWorlds } from '../../records/offers.ts';
import { liveOrTest } from './live-or-test.ts';
import { type ResetParts, resetRoute } from './routes/reset.ts';
import { type TestModeSettings, testModePart } from './settings.ts';
import { TestRecords } from './test-records.ts';
import { WorldsTable } from './worlds-table.ts';

const unusedDays = 90;

export const testMode = defineFeature({
  name: 'test-mode',
  settings: testModePart,
  tags: {
    'Test keys':
      'Test consumers have the same API as live ones, on records of their own that the CRM never sees.',
  },
  start,
  routes: (parts: ResetParts) => [resetRoute(parts)],
});

function start({ settings, database, records, offers }: Core<TestModeSettings>): Started<ResetParts> {
  const table = new WorldsTable(database);
  const emptying = new Set<(consumerId: string, days: number) => Promise<void>>();
  const forget = async (consumerId: string, days: number) => {
    for (const part of emptying) await part(consumerId, days);
    await forgetClaims(database, consumerId, days);
  };
  // The records last: until then what waits may make some.
  const empty = async (consumerId: string) => {
    await forget(consumerId, 0);
    await table.empty(consumerId);
  };
  const isEnabled = settings.testKeys.enabled;
  if (isEnabled) offers.make(testWorlds, { emptying });
  return {
    // Also where they are turned off: what waits for a test consumer must not come to the CRM.
    records: liveOrTest(records, new TestRecords(table)),
    routes: isEnabled ? { empty } : null,
    jobs: [
      {
        name: 'clear-test-worlds',
        cron: '37 3 * * *',
        steps: {
          records: (signal) => table.clear(signal),
          unused: async (signal) => {
            // After so long nothing waits any more. It may be in use again by now, or soon: what is from then stays.
            for (const consumerId of await table.unused(unusedDays))
              if (!signal.aborted && (await table.empty(consumerId, unusedDays)))
                await forget(consumerId, unusedDays - 1);
          },
        },
      },
    ],
  };
}
