import { randomUUID } from 'node:crypto';
import { startCall } from '../../base/call.ts';
import type { Settle } from '../../idempotency/housekeeping.ts';
import type { Route } from '../route.ts';
import { withContentType } from './run-route.ts';

/** Looks, for the ledger's housekeeping, what became of an operation that nobody finished. */
export function createSettle(routes: readonly Route[]): Settle {
  const byOperation = new Map(routes.map((route) => [route.operationId, route]));
  return async (operation, externalId) => {
    const route = byOperation.get(operation);
    const answer = await route?.settle?.(externalId, startCall(randomUUID()));
    if (!answer) return undefined;
    const { status, headers = {}, body = '' } = answer;
    return { status, headers: withContentType(headers, body), body };
  };
}
