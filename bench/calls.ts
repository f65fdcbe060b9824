import type { Crm, Gateway } from './harness.ts';
import type { Load } from './load.ts';
import type { OpenLoad } from './open-load.ts';
import { meteredCalls } from './org-control.ts';
import { type Measured, measure } from './rounds.ts';
import { type Spread, spreadOf } from './spread.ts';

export interface WithCalls extends Measured {
  /** Metered CRM calls an answer. */
  callsEach: number;
}

/** As `measure`, and counts the calls that the org meters. */
export async function measureCalls(
  request: Load | OpenLoad,
  { gateway, org }: { gateway: Gateway; org: Crm },
): Promise<WithCalls> {
  const before = await meteredCalls(org);
  const measured = await measure(request, { gateway: gateway.program, CRM: org.program });
  return { ...measured, callsEach: ((await meteredCalls(org)) - before) / measured.answers };
}

export function callsEach(results: WithCalls[]): Spread {
  return spreadOf(results.map((result) => result.callsEach));
}
