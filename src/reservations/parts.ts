import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import { bookingOrder } from './booking-order.ts';
import type { Plan } from './plan.ts';
import type { Systems } from './steps.ts';
import type { Parts } from './view.ts';

/** How long a read waits for the two systems. */
const readMs = 5000;

/** How the parts stand now, both asked at the same time; what can't be asked is unknown. */
export async function lookAtParts(
  { crm, dining }: Pick<Systems, 'crm' | 'dining'>,
  plan: Plan,
  call: Call,
): Promise<Parts> {
  const { order, table } = plan;
  const bounded = { ...call, deadline: Math.min(call.deadline, performance.now() + readMs) };
  const [bookingPart, tablePart] = await Promise.all([
    crm.retrieve(plan.id, bookingOrder(plan, 'confirmed'), bounded).catch(unknown),
    table && dining.retrieve(table.reference, order.table, bounded).catch(unknown),
  ]);
  call.crmMs = bounded.crmMs;
  return {
    booking: bookingPart === 'unknown' ? bookingPart : bookingPart?.crmStatus,
    table: tablePart === 'unknown' ? tablePart : tablePart?.status,
  };
}

/** Its part of the view says so; the other part is shown all the same. */
function unknown(error: unknown): 'unknown' {
  if (error instanceof Problem) return 'unknown';
  throw error;
}
