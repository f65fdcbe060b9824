import { modeOf } from '../platform/base/call.ts';
import type { Creator } from './created-by.ts';

/** Faults by the end of a member's id: a write of a test consumer for it meets the same fault each time. */
export const testFaults = {
  '000000000404': 'missing',
  '000000000422': 'refused',
  /** The CRM is not available for this record, until some seconds later. */
  '000000000503': 'unavailable',
  /** The record is made, and the answer is lost. */
  '000000000504': 'lost',
  /** The quota is used up for this record, until some seconds later. */
  '000000000429': 'quota',
  /** A hand-off is accepted, and delivered some seconds later; nothing elsewhere. */
  '000000000202': 'accepted',
} as const;
type TestFault = (typeof testFaults)[keyof typeof testFaults];

export function testFaultOf(memberId: string): TestFault | undefined {
  const end = memberId.slice(memberId.lastIndexOf('-') + 1);
  return (testFaults as Record<string, TestFault>)[end];
}

/** In seconds: how long a hand-off for this member waits although nobody asked for it; undefined for all others. */
export function delayOfTest(memberId: string, { consumerId }: Creator): number | undefined {
  const isDelayed = modeOf(consumerId) === 'test' && testFaultOf(memberId) === 'accepted';
  return isDelayed ? 5 : undefined;
}
