import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { eventually } from './eventually.ts';
import type { RequestOptions, TestGateway } from './gateway.ts';

/** A hand-off that was answered 202, as GET shows it. */
export interface AcceptedHandoff {
  external_id: string;
  type: string;
  version: string;
  status: 'awaiting_approval' | 'accepted' | 'created' | 'failed' | 'cancelled' | 'rejected';
  id: string | null;
  problem: { code: string; detail: string; request_id: string; errors?: object[] } | null;
  attempts: number;
  latest_attempts?: {
    number: number;
    at: string;
    duration_ms: number;
    problem: { code: string; detail: string } | null;
  }[];
  next_attempt_at?: string | null;
  accepted_at: string;
  completed_at: string | null;
  valid_until: string | null;
  approval: {
    status: 'pending' | 'approved' | 'rejected' | 'expired';
    decided_by: { consumer_id: string; consumer_name: string | null; actor: string | null } | null;
    decided_at: string | null;
    reason: string | null;
  } | null;
  request: { trip_id: string; member_id: string; created_by: object; result: Record<string, unknown> } | null;
}

export const respondAsync = { prefer: 'respond-async' };

/** The body of a hand-off. */
export function offerFor(memberId: string, change: object = {}) {
  return {
    type: 'quote',
    trip_id: randomUUID(),
    member_id: memberId,
    result: { name: 'Hotel Miramar', source: 'hotelbeds', details: { net: 612.4 } },
    ...change,
  };
}

/** The body of the hand-off of a trip with one item. */
export function tripFor(memberId: string, change: object = {}) {
  const { trip_id, member_id, type, result } = offerFor(memberId);
  return { trip_id, member_id, items: [{ type, result }], ...change };
}

/** Hands off so that it is answered 202, and returns its External ID. */
export async function accept(
  gateway: TestGateway,
  change: object = {},
  { headers = respondAsync, ...options }: RequestOptions = {},
): Promise<string> {
  const body = offerFor(gateway.org.memberId, change);
  const response = await gateway.request('/api/v1/handoff', { ...options, body, headers });
  const text = await response.text();
  assert.equal(response.status, 202, text);
  return (JSON.parse(text) as { external_id: string }).external_id;
}

export async function readHandoff(gateway: TestGateway, externalId: string): Promise<AcceptedHandoff> {
  const response = await gateway.request(`/v1/handoffs/${externalId}`);
  assert.equal(response.status, 200);
  return (await response.json()) as AcceptedHandoff;
}

/** The hand-off, once it is as it should be. */
export async function untilHandoff(
  gateway: TestGateway,
  externalId: string,
  isThere: (handoff: AcceptedHandoff) => boolean = ({ status }) => status === 'created',
): Promise<AcceptedHandoff> {
  return eventually(async () => {
    const handoff = await readHandoff(gateway, externalId);
    assert.ok(isThere(handoff), `the hand-off is ${handoff.status}`);
    return handoff;
  });
}
