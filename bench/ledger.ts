import { setTimeout as delay } from 'node:timers/promises';
import { type Crm, type Gateway, readCredentials } from './harness.ts';
import { meteredCalls } from './org-control.ts';

/** How far the ledger of CRM calls agrees with the org's own counter, in a sentence. */
export async function ledgerNote({ url, dataDir }: Gateway, org: Crm): Promise<string> {
  // Every replica writes its sums each second.
  await delay(2000);
  const response = await fetch(`${url}/v1/admin/crm-usage`, { headers: readCredentials(dataDir, 'admin') });
  const { total } = (await response.json()) as { total: number };
  const metered = await meteredCalls(org);
  const difference = (100 * Math.abs(total - metered)) / metered;
  return `The ledger of all replicas has ${Math.round(total)} calls, the org has counted ${metered}: a difference of ${difference.toFixed(2)} %.`;
}
