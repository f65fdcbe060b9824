import { problemAnswer } from '../../../api/pipeline/answer.ts';
import { json, type RouteAnswer } from '../../../api/route.ts';
import type { Call } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { HandoffType } from '../../handoff/handoff.ts';
import type { HandoffParts } from '../../handoff/routes/handoff.ts';
import type { ItemAnswer, TripItem } from '../hand-off-trip.ts';

export type Outcome = ItemAnswer | Problem;

interface AnsweredTrip {
  items: readonly TripItem[];
  outcomes: readonly Outcome[];
  tripId: string;
  call: Call;
  respondAsync: boolean;
}

export function tripAnswer({ items, outcomes, tripId, call, respondAsync }: AnsweredTrip): RouteAnswer {
  const answered = outcomes.map((outcome, index) =>
    outcome instanceof Problem ? failedItem(outcome, (items[index] as TripItem).request.type, call) : outcome,
  );
  const statuses = new Set(answered.map(({ status }) => status));
  const status = statusOf(statuses);
  const applied = status === 202 && respondAsync ? { 'preference-applied': 'respond-async' } : undefined;
  return confirmation(status, tripId, answered, applied);
}

function confirmation(status: number, trip_id: string, items: readonly object[], headers = {}): RouteAnswer {
  return json(status, { trip_id, items }, { location: `/v1/trips/${trip_id}`, ...headers });
}

function failedItem(problem: Problem, type: HandoffType, { requestId }: Call) {
  const { body } = problemAnswer(problem, requestId, false);
  return { type, status: 'failed', external_id: null, problem: JSON.parse(body) as unknown };
}

function statusOf(statuses: ReadonlySet<string>): number {
  if (statuses.has('accepted') || statuses.has('awaiting_approval')) return 202;
  return statuses.has('created') ? 201 : 200;
}

/**
 * The answer to a request that was interrupted, if an item of it waits or has a record. `names`: types and External IDs of its items.
 */
export async function reconcileTrip(
  { records, resources, handoffs }: HandoffParts,
  names: readonly string[],
  call: Call,
): Promise<RouteAnswer | undefined> {
  const items = names.map((name) => {
    const [type, externalId] = name.split(' ') as [HandoffType, string];
    return { type, externalId, resource: resources[type] };
  });
  if (items.length === 0) return undefined;
  const stored = await Promise.all(items.map(({ externalId }) => handoffs.find(externalId)));
  const made = await records.findTogether(items, call);
  const tripId = stored.find(Boolean)?.tripId ?? made.find(Boolean)?.values['trip_id'];
  if (!tripId) return undefined;
  const answered = items.map(({ type, externalId: external_id }, index) => {
    const [waiting, record] = [stored[index], made[index]];
    if (record) return { id: record.nativeId, type, status: 'created', external_id };
    if (waiting) return { type, status: waiting.approval ? 'awaiting_approval' : 'accepted', external_id };
    return failedItem(interrupted(), type, call);
  });
  return confirmation(statusOf(new Set(answered.map(({ status }) => status))), tripId, answered);
}

function interrupted(): Problem {
  const detail =
    'The request was interrupted before it reached this item. Send the item again with a new key.';
  return new Problem('crm_timeout', detail);
}
