import { type Doer, entry, type FoundEntry, type HistorySource } from '../../api/history.ts';
import { visibleFields } from '../../identity/consumers/visible-records.ts';
import { isFieldVisible } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import { viewOfCreator } from '../../records/created-by.ts';
import type { Approval, StoredHandoff } from './accepted.ts';
import { targets } from './handoff.ts';
import type { Handoffs } from './handoffs.ts';
import { find } from './routes/accepted-handoffs.ts';

export function createHandoffHistory(handoffs: Handoffs): HistorySource {
  return async ({ type, id }, { consumer }) => {
    if (type === 'reservation') return [];
    const stored = await find(handoffs, id, consumer, 'read').catch(noneIfAbsent);
    if (stored === undefined || (type !== 'handoff' && stored.type !== type)) return [];
    const fields = visibleFields(consumer, targets[stored.type].collection);
    return entriesOf(stored, isFieldVisible(fields, 'created_by'));
  };
}

function noneIfAbsent(error: unknown): undefined {
  if (!(error instanceof Problem && error.code === 'not_found')) throw error;
}

function entriesOf(handoff: StoredHandoff, showsMaker: boolean): FoundEntry[] {
  const { approval, acceptedAt } = handoff;
  const by = showsMaker ? viewOfCreator(handoff) : null;
  return [
    entry(acceptedAt, 'requested', { by, endpoint: 'POST /api/v1/handoff', once: 'requested' }),
    approval
      ? entry(acceptedAt, 'awaiting_approval', { by, once: 'awaiting_approval' })
      : entry(acceptedAt, 'accepted', { by }),
    ...decisionOf(approval),
    ...endOf(handoff, by),
  ];
}

function decisionOf(approval: Approval | undefined): FoundEntry[] {
  if (approval?.decidedAt === undefined) return [];
  const { status, decidedAt, decidedBy } = approval;
  if (status !== 'approved' && status !== 'rejected') return [];
  return [entry(decidedAt, status, { by: doerOf(decidedBy), once: status })];
}

function doerOf(decider: Approval['decidedBy']): Doer | null {
  return decider === undefined ? null : { ...decider, verified: decider.verified ?? false };
}

function endOf({ status, completedAt }: StoredHandoff, by: Doer | null): FoundEntry[] {
  if (completedAt === undefined) return [];
  if (status === 'created') return [entry(completedAt, status, { by, once: status })];
  // One that is delivered again may fail again.
  if (status === 'failed')
    return [entry(completedAt, status, { once: `failed ${completedAt.toISOString()}` })];
  return status === 'cancelled' ? [entry(completedAt, status)] : [];
}
