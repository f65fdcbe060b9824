import { randomUUID } from 'node:crypto';
import type { Org } from './org.ts';

/** Quotes of a trip that have 9.4 MiB of details together, the newest first. */
export async function insertLargeQuotes(org: Org, tripId: string) {
  const rows = Array.from({ length: 25 }, (_, index) => ({
    External_Id__c: randomUUID(),
    Trip_Id__c: tripId,
    Name__c: `n${index}`,
    Source__c: 's',
    Details__c: JSON.stringify({ text: '漢'.repeat(131_000) }),
    CreatedDate: new Date(Date.UTC(2026, 0, 1) - index * 1000).toISOString(),
  }));
  for (let at = 0; at < rows.length; at += 5) await org.insert('Quote__c', rows.slice(at, at + 5));
  return rows;
}
