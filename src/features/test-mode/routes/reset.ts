import { defineRoute, type Route } from '../../../api/route.ts';
import { modeOf } from '../../../platform/base/mode.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { orUnavailable } from '../../../platform/store/failures.ts';

export interface ResetParts {
  /** Throws what the database does. */
  empty(consumerId: string): Promise<void>;
}

export function resetRoute(parts: ResetParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/test/reset',
    operationId: 'resetTestWorld',
    tag: 'Test keys',
    summary: 'Delete the records of the calling test consumer',
    description:
      'Deletes its quotes, bookings, hand-offs and reservations, also those that are waiting, and the answers stored under its ' +
      'Idempotency-Keys. Its keys, webhook endpoints and past events stay. Live consumers get 404.',
    permission: { anyCredentials: true },
    idempotencyKey: 'ignored',
    request: {},
    answers: { 204: { description: 'The records are deleted.' } },
    problems: ['not_found', 'store_unavailable'],
    async handle({ consumer }) {
      const id = consumer?.id ?? '';
      if (modeOf(id) === 'live')
        throw new Problem('not_found', 'There is nothing to reset for live credentials.');
      await orUnavailable(() => parts.empty(id), { keeps: 'keeps the records of test consumers' });
      return { status: 204 };
    },
  });
}
