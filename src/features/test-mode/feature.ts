import { Type } from 'typebox';
import { forgetClaims } from '../../api/idempotency/claims-table.ts';
import { defineRoute, type Route } from '../../api/route.ts';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { adapterFor, type Call, modeOf } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import { setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { Turns } from '../../platform/store/turns.ts';
import { testWorlds } from '../../records/offers.ts';
import type { Records } from '../../records/records.ts';
import { TestRecords } from './test-records.ts';
import { WorldsTable } from './worlds-table.ts';

interface ResetParts {
  /** Throws what the database does. */
  empty(consumerId: string): Promise<void>;
}

/** At once in this process: what is deleted of a world needs the connections of jobs. */
const resetsAtOnce = 2;

function resetRoute(parts: ResetParts): Route {
  const resets = new Turns(resetsAtOnce, 'resets');
  return defineRoute({
    method: 'POST',
    path: '/v1/test/reset',
    operationId: 'resetTestWorld',
    tag: 'Test keys',
    summary: "Delete the calling test consumer's records",
    description:
      'Deletes its quotes, bookings, hand-offs and reservations, including waiting ones, and the responses stored under its ' +
      'Idempotency-Keys. Its keys, webhook endpoints and past events stay. Live consumers get 404.',
    permission: { anyCredentials: true },
    idempotencyKey: 'ignored',
    request: {},
    answers: { 204: { description: 'The records are deleted.' } },
    problems: ['not_found', 'store_unavailable'],
    async handle({ consumer }) {
      const id = consumer?.id ?? '';
      if (modeOf(id) === 'live')
        throw new Problem('not_found', "There's nothing to reset for live credentials.");
      await orUnavailable(() => resets.run(id, () => parts.empty(id)), {
        keeps: 'keeps the records of test consumers',
      });
      return { status: 204 };
    },
  });
}

function liveOrTest(live: Records, test: Records): Records {
  const of = (call: Call | undefined) => adapterFor(call ?? {}, { live, test });
  return {
    admit: (call) => of(call).admit(call),
    now: (call) => of(call).now(call),
    create: (resource, externalId, values, call, options) =>
      of(call).create(resource, externalId, values, call, options),
    createAndRead: (resource, externalId, values, call, options) =>
      of(call).createAndRead(resource, externalId, values, call, options),
    writeTogether: (writes, call, options) => of(call).writeTogether(writes, call, options),
    listTogether: (lists, call) => of(call).listTogether(lists, call),
    findTogether: (keys, call) => of(call).findTogether(keys, call),
    find: (resource, externalId, call) => of(call).find(resource, externalId, call),
    findWithDeleted: (resource, externalId, call) => of(call).findWithDeleted(resource, externalId, call),
    list: (resource, query, call) => of(call).list(resource, query, call),
    update: (resource, record, values, call) => of(call).update(resource, record, values, call),
    updateAndRead: (resource, record, values, call) => of(call).updateAndRead(resource, record, values, call),
    remove: (resource, ref, call) => of(call).remove(resource, ref, call),
  };
}

const testModeSettings = {
  'testKeys.enabled': setting(
    'TEST_KEYS_ENABLED',
    Type.Boolean(),
    true,
    'Accepts the credentials of test consumers, which never reach Salesforce.',
  ),
};

type TestModeSettings = SettingsOf<typeof testModeSettings>;

const testModePart: SettingsPart = { table: testModeSettings };

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
            // After this long nothing waits any more. It may be in use again by now, or soon: what is from then stays.
            for (const consumerId of await table.unused(unusedDays))
              if (!signal.aborted && (await table.empty(consumerId, unusedDays)))
                await forget(consumerId, unusedDays - 1);
          },
        },
      },
    ],
  };
}
