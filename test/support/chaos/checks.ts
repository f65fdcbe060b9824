import { isDeepStrictEqual } from 'node:util';
import type { Client } from 'pg';
import { isReplay, lasting } from '../keyed-writes.ts';
import type { Org } from '../org.ts';
import type { Figures } from './figures.ts';
import type { DoneWrite, Outcome } from './record-life.ts';
import { describe, type StubbornClient } from './stubborn-client.ts';

/** The org holds of each life exactly what was acknowledged last, once, and nothing else. */
export async function checkOrg(org: Org, outcomes: Outcome[], figures: Figures): Promise<void> {
  const violationsBefore = figures.violations.length;
  for (const [object, collection] of [
    ['Quote__c', 'quotes'],
    ['Booking__c', 'bookings'],
  ] as const) {
    const records = Map.groupBy(await org.records(object), (record) => String(record['Trip_Id__c']));
    for (const outcome of outcomes.filter(({ plan }) => plan.collection === collection)) {
      checkRecord(object, outcome, records.get(outcome.plan.trip) ?? [], figures);
      records.delete(outcome.plan.trip);
    }
    for (const trip of records.keys()) figures.violation(`${object} of trip ${trip}: nobody asked for it`);
  }
  const count = outcomes.filter(({ exists }) => exists).length;
  const faults = figures.violations.length - violationsBefore;
  figures.checks.push(
    `records in the org: ${count} expected as acknowledged, ${outcomes.length - count} deleted, ${faults} wrong`,
  );
}

function checkRecord(
  object: string,
  { plan, id, fields, exists }: Outcome,
  found: Record<string, unknown>[],
  figures: Figures,
): void {
  const where = `${object} of trip ${plan.trip}`;
  if (found.length !== (exists ? 1 : 0)) return figures.violation(`${where}: ${found.length} records`);
  const [record] = found;
  if (record === undefined) return;
  const { External_Id__c: key, Name__c: name, Source__c: source, Details__c: details } = record;
  const same = key === id && name === fields.name && source === fields.source && details === fields.details;
  if (!same) figures.violation(`${where}: ${JSON.stringify({ key, name, source, details })}`);
}

/** The ledger holds one completed claim a key. */
export async function checkLedger(database: Client, keys: number, figures: Figures): Promise<void> {
  const { rows } = await database.query<{ all: number; done: number; continued: number }>(
    `select count(*)::int as all, count(completed_at)::int as done,
      (count(*) filter (where fence > extract(epoch from created_at) * 1000000))::int as continued
     from idempotency_claims`,
  );
  const { all = 0, done = 0, continued = 0 } = rows[0] ?? {};
  if (all !== keys || done !== keys)
    figures.violation(`the ledger: ${done} of ${all} claims done, ${keys} keys`);
  figures.checks.push(
    `claims in the ledger: ${done} completed of ${all}, ${continued} by more than one owner`,
  );
}

/** Each write, sent once more, is answered from the ledger, byte for byte as the first time. */
export async function checkReplays(
  client: StubbornClient,
  written: DoneWrite[],
  figures: Figures,
): Promise<void> {
  let same = 0;
  const replay = async ({ request, answer }: DoneWrite): Promise<void> => {
    const again = await client.send(request);
    if (again && isReplay(again) && isDeepStrictEqual(lasting(again), lasting(answer))) same += 1;
    else figures.violation(`${describe(request)} again: ${again?.status} ${again?.text}`);
  };
  await Promise.all(written.map(replay));
  figures.checks.push(`replays at the end: ${same} of ${written.length} identical`);
}
