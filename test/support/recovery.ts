import assert from 'node:assert/strict';
import { eventually } from './eventually.ts';

/**
 * Waits until requests are let through to the CRM again: after it was dead, or its quota used up, they are refused
 * for a second or two, and nothing shows when that is over.
 */
export async function untilCrmIsBack(read: () => Promise<{ status: number }>): Promise<void> {
  await eventually(async () => assert.notEqual((await read()).status, 503), { everyMs: 50 });
}
