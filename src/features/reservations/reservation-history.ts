import { entry, type FoundEntry, type HistoryKind, type HistorySource } from '../../api/history.ts';
import { isFieldVisible, type VisibleFields } from '../../platform/base/call.ts';
import { viewOfCreator } from '../../records/created-by.ts';
import { booking } from '../../records/quotes-and-bookings.ts';
import type { Plan, PlanStep } from './plan.ts';
import type { PlansTable } from './plans-table.ts';

const kinds: Readonly<Record<string, HistoryKind>> = {
  confirmed: 'created',
  failed: 'failed',
  cancelled: 'cancelled',
};

export function createReservationHistory(plans: PlansTable): HistorySource {
  return async ({ type, id }, { call }) => {
    if (type !== 'reservation') return [];
    const plan = await plans.find(id, call.visible(booking.collection));
    if (plan === undefined || plan.state === 'refused') return [];
    return entriesOf(plan, await plans.steps(id), call.visibleFields?.(booking.collection));
  };
}

function entriesOf(plan: Plan, stored: readonly PlanStep[], visible: VisibleFields): FoundEntry[] {
  const { creator } = plan;
  const by = creator && isFieldVisible(visible, 'created_by') ? viewOfCreator(creator) : null;
  const endpoint = 'POST /v1/reservations';
  const requested = entry(plan.createdAt, 'requested', { by, endpoint, once: 'requested' });
  // Steps show the status.
  if (!isFieldVisible(visible, 'status')) return [requested];
  // Of one that an older program has made, only its last state is known.
  const steps = stored.length > 0 ? stored : [{ step: plan.state, at: plan.updatedAt.toISOString() }];
  return [requested, ...steps.map((one, i) => ofStep(one, steps[i - 1]))];
}

function ofStep({ step, at }: PlanStep, before: PlanStep | undefined): FoundEntry {
  // One whose cancellation was refused is confirmed again.
  const isBack = step === 'confirmed' && before?.step === 'cancelling_table';
  const kind = isBack ? 'step' : (kinds[step] ?? 'step');
  return entry(new Date(at), kind, { changes: [{ field: 'step', from: before?.step ?? null, to: step }] });
}
