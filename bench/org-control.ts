import { randomUUID } from 'node:crypto';
import type { Crm } from './harness.ts';
import { quoteRow } from './requests.ts';

/** A member and quotes of theirs in the simulated org. */
export async function fillOrg(org: Crm, quotes: number): Promise<{ memberId: string; quoteIds: string[] }> {
  const memberId = randomUUID();
  await control(org, 'POST', 'records/Contact', [{ LastName: 'Bench', External_Id__c: memberId }]);
  const quoteIds = Array.from({ length: quotes }, () => randomUUID());
  const rows = quoteIds.map((id) => quoteRow(memberId, id));
  await control(org, 'POST', 'records/Quote__c', rows);
  return { memberId, quoteIds };
}

export async function insertMembers(org: Crm, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  const rows = ids.map((id) => ({ LastName: 'Bench', External_Id__c: id }));
  await insertRecords(org, 'Contact', rows);
  return ids;
}

/** Puts records as they are into the simulated org. */
export async function insertRecords(org: Crm, object: string, rows: readonly object[]): Promise<void> {
  await control(org, 'POST', `records/${object}`, rows);
}

/** How slow and how narrow the org is; null: any number of calls at once. */
export async function setPace(
  org: Crm,
  pace: { latencyMs: number; maxConcurrent: number | null },
): Promise<void> {
  await control(org, 'PATCH', 'settings', pace);
}

/** No call reaches the org any more. */
export async function cutOff(org: Crm): Promise<void> {
  await control(org, 'POST', 'faults', { match: {}, effect: { kind: 'down' } });
}

/** Calls so far that count against the daily limit. */
export async function meteredCalls(org: Crm): Promise<number> {
  return ((await control(org, 'GET', 'counters')) as { metered: number }).metered;
}

async function control(org: Crm, method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(`${org.url}/simulator/${path}`, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}
