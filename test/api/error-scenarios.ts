import { randomUUID } from 'node:crypto';
import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProblemCode } from '../../src/platform/base/problem.ts';
import type { Credentials, RequestOptions, TestGateway } from '../support/gateway.ts';
import { offerFor } from '../support/handoffs.ts';
import { recordFor } from '../support/records.ts';
import { untilCrmIsBack } from '../support/recovery.ts';
import { newReservation } from '../support/reservations.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';

/** What the scenarios play on. */
export interface Harness {
  gateway: TestGateway;
  /** Sends a request, and fails where the answer does not fit the document. */
  request(path: string, options?: RequestOptions): Promise<Response>;
  /** Runs a statement in the gateway's database. */
  sql(statement: string): Promise<void>;
  /** Between the gateway and its database. */
  database: TcpProxy;
}

/** How many requests a minute the gateway of the harness takes from a consumer. */
export const requestsPerMinute = 200;
/** How long it waits for the CRM. */
export const crmTimeoutMs = 3000;

/** Leads to an answer with that code. */
type Scenario = (harness: Harness) => Promise<Response>;

const missing = () => `/v1/quotes/${randomUUID()}`;
const key = (value: string = randomUUID()) => ({ 'idempotency-key': value });

const newQuote = ({ org }: TestGateway, change: object = {}) => recordFor(org.memberId, change);

async function create({ gateway, request }: Harness): Promise<string> {
  const response = await request('/v1/quotes', { body: newQuote(gateway), headers: key() });
  return `/v1/quotes/${((await response.json()) as { id: string }).id}`;
}

const change = (headers: Record<string, string> = {}) => ({
  method: 'PATCH',
  body: { name: 'c' },
  headers: { ...key(), ...headers },
});

/** Sends a request while the org does that to calls that match. */
async function during(
  { gateway }: Harness,
  fault: Parameters<TestGateway['org']['arm']>[0],
  send: () => Promise<Response>,
): Promise<Response> {
  const armed = await gateway.org.arm(fault);
  const response = await send();
  await armed.remove();
  await untilCrmIsBack(() => gateway.request(missing()));
  return response;
}

/** Orders a table while the partner does that. */
async function reserve({ gateway, request }: Harness, effect: object): Promise<Response> {
  const fault = await gateway.diningPartner.arm({ match: { operation: 'CreateBooking' }, effect });
  const body = newReservation(gateway.org.memberId);
  const response = await request('/v1/reservations', { body, headers: key() });
  await fault.remove();
  return response;
}

/** Every code: how it comes about, or why nothing leads to it yet. */
export const scenarios: Record<ProblemCode, Scenario | { notReachableYet: string }> = {
  invalid_request: ({ request }) => request('/v1/quotes?limit=0'),
  malformed_json: ({ request }) => request('/v1/quotes', { body: '{', headers: key() }),
  idempotency_key_missing: ({ gateway, request }) => request('/v1/quotes', { body: newQuote(gateway) }),
  idempotency_key_invalid: ({ request }) => request(missing(), change(key('order-1'))),
  invalid_cursor: ({ request }) => request('/v1/quotes?cursor=none'),
  cursor_expired: async ({ gateway, request, sql }) => {
    const { next_cursor: cursor } = (await (await gateway.request('/v1/events')).json()) as {
      next_cursor: string;
    };
    await sql(
      'update event_counter set last_sequence = last_sequence + 2, deleted_through = last_sequence + 1',
    );
    return request(`/v1/events?cursor=${cursor}`);
  },
  invalid_credentials: ({ request }) => request('/v1/quotes', { as: null }),
  permission_denied: ({ request }) => request('/v1/admin/consumers'),
  approval_required: async ({ gateway, request }) => {
    const permissions = [{ resource: 'quotes', actions: ['write'], approval: true }];
    const made = await request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: 'held back', permissions },
    });
    const options = { as: (await made.json()) as Credentials, body: newQuote(gateway), headers: key() };
    return request('/v1/quotes', options);
  },
  offer_expired: ({ gateway, request }) =>
    request('/api/v1/handoff', {
      body: { ...offerFor(gateway.org.memberId), valid_until: '2026-01-01T00:00:00Z' },
    }),
  address_not_allowed: async ({ gateway, request }) => {
    const wanted = {
      name: 'elsewhere',
      permissions: [{ resource: 'quotes', actions: ['read'] }],
      allowedAddresses: ['192.0.2.1'],
    };
    const made = await request('/v1/admin/consumers', { as: gateway.admin, body: wanted });
    return request('/v1/quotes', { as: (await made.json()) as Credentials });
  },
  not_found: ({ request }) => request(missing()),
  method_not_allowed: ({ request }) => request('/v1/quotes', { method: 'PUT' }),
  idempotency_in_progress: async ({ gateway, request }) => {
    const match = { object: 'Quote__c', operation: 'create' };
    const hold = await gateway.org.arm({ match, effect: { kind: 'hold' } });
    const options = { body: newQuote(gateway), headers: key() };
    const first = request('/v1/quotes', options);
    await hold.hit();
    const response = await request('/v1/quotes', options);
    await hold.release();
    await hold.remove();
    await first;
    return response;
  },
  conflict: async (harness) => {
    const path = await create(harness);
    const locked = { kind: 'recordError', errorCode: 'ENTITY_IS_LOCKED', message: 'locked' };
    return during(harness, { match: { operation: 'update' }, effect: locked }, () =>
      harness.request(path, change()),
    );
  },
  precondition_failed: async (harness) =>
    harness.request(await create(harness), change({ 'if-match': '"old"' })),
  payload_too_large: ({ request }) =>
    request('/v1/quotes', { body: { name: 'x'.repeat(1_048_576) }, headers: key() }),
  unsupported_media_type: ({ request }) =>
    request('/v1/quotes', { body: 'a', headers: { ...key(), 'content-type': 'text/plain' } }),
  idempotency_key_reused: async ({ gateway, request }) => {
    const headers = key();
    await request('/v1/quotes', { body: newQuote(gateway), headers });
    return request('/v1/quotes', { body: newQuote(gateway), headers });
  },
  member_not_found: ({ gateway, request }) =>
    request('/v1/quotes', { body: newQuote(gateway, { member_id: randomUUID() }), headers: key() }),
  details_too_large: ({ gateway, request }) =>
    request('/v1/quotes', {
      body: newQuote(gateway, { details: { a: ' '.repeat(131_072) } }),
      headers: key(),
    }),
  crm_rejected: async (harness) => {
    const { gateway, request } = harness;
    const refusal = { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'no' };
    return during(harness, { match: { object: 'Quote__c', method: 'POST' }, effect: refusal, times: 1 }, () =>
      request('/v1/quotes', { body: newQuote(gateway), headers: key() }),
    );
  },
  partner_rejected: (harness) => reserve(harness, { kind: 'failure', cause: 'SLOT_UNAVAILABLE' }),
  rate_limited: async ({ gateway, request }) => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const path = missing();
    for (let sent = 0; sent < requestsPerMinute; sent++) await gateway.request(path, { as });
    return request(path, { as });
  },
  allowance_exhausted: async ({ gateway, request }) => {
    const as = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const body = { allowance: { requests: 1, per: 'month' } };
    await gateway.request(`/v1/admin/consumers/${as.id}`, { method: 'PATCH', as: gateway.admin, body });
    await gateway.request(missing(), { as });
    return request(missing(), { as });
  },
  internal_error: { notReachableYet: 'it is a fault of the program; errors.test.ts plants one' },
  crm_error: (harness) => {
    const gone = { kind: 'error', status: 403, errorCode: 'API_DISABLED_FOR_ORG', message: 'off' };
    return during(harness, { match: { object: 'Quote__c' }, effect: gone }, () => harness.request(missing()));
  },
  partner_error: (harness) => reserve(harness, { kind: 'answer', status: 200, body: 'no json' }),
  crm_unavailable: async (harness) => {
    const path = await create(harness);
    return during(harness, { match: { operation: 'update' }, effect: { kind: 'reset' } }, () =>
      harness.request(path, change()),
    );
  },
  crm_quota_exhausted: (harness) =>
    during(harness, { match: { object: 'Quote__c' }, effect: { kind: 'dailyLimit' } }, () =>
      harness.request(missing()),
    ),
  partner_unavailable: (harness) => reserve(harness, { kind: 'error', status: 503 }),
  store_unavailable: async ({ gateway, request, database }) => {
    await database.cut();
    const response = await request('/v1/quotes', { body: newQuote(gateway), headers: key() });
    await database.restore();
    return response;
  },
  secrets_unavailable: async ({ gateway, request }) => {
    const { id } = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const path = join(gateway.dataDir, 'secrets', 'consumers', id);
    // A link to itself is the fault of a file that nobody gets past, root included.
    await rm(path);
    await symlink(path, path);
    const response = await request(`/v1/admin/consumers/${id}/rotate`, { method: 'POST', as: gateway.admin });
    await rm(path);
    return response;
  },
  crm_timeout: async (harness) => {
    const path = await create(harness);
    return during(harness, { match: { operation: 'update' }, effect: { kind: 'hang' } }, () =>
      harness.request(path, change()),
    );
  },
  partner_timeout: (harness) => reserve(harness, { kind: 'error', status: 504 }),
};
