import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Permission } from '../../../src/identity/consumers/consumer.ts';
import type { Credentials, RequestOptions, TestGateway } from '../../support/gateway.ts';

/** The first member of every world, and of the simulated org. */
export const memberId = '8673c1d4-1752-87ae-aa59-227b6cc68c14';

/** A member that stands for a fault. */
export const faultyMember = (end: string) => `00000000-0000-4000-8000-000000000${end}`;

const all: Permission[] = (['members', 'quotes', 'bookings', 'webhooks'] as const).map((resource) => ({
  resource,
  actions: ['read', 'write', 'delete'],
}));

/** A new consumer, made by the administrator; for tests unless `mode` says otherwise. */
export async function makeConsumer(
  gateway: TestGateway,
  { permissions = all, mode = 'test' }: { permissions?: Permission[]; mode?: string } = {},
): Promise<Credentials> {
  const body = { name: `A ${mode} consumer`, mode, permissions };
  const response = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as Credentials;
}

export type Answer = Record<string, unknown> & { code?: string; id?: string; external_id?: string };

export async function sendTo(gateway: TestGateway, path: string, options: RequestOptions) {
  const response = await gateway.request(path, options);
  const text = await response.text();
  return { response, status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Answer };
}

/** The body of a hand-off. */
export function handoffFor(member: string, others: object = {}): Record<string, unknown> {
  return {
    type: 'quote',
    trip_id: randomUUID(),
    member_id: member,
    result: { name: 'Hotel Miramar', source: 'hotelbeds', details: { net: '612.40', big: 1 } },
    ...others,
  };
}

/** The body of a new quote or booking. */
export function recordFor(member: string, others: object = {}): Record<string, unknown> {
  const { result, type: _, ...rest } = handoffFor(member) as Record<string, object>;
  return { ...rest, ...result, ...others };
}

export const withKey = (key = randomUUID()) => ({ 'idempotency-key': key });
