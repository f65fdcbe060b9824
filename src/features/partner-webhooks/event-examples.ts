import type { TSchema } from 'typebox';
import { exampleOf } from '../../api/openapi/schemas.ts';
import { problems } from '../../platform/base/problems.ts';
import type { EventType } from '../events/event-log.ts';

const decidedAt = '2027-03-02T16:05:12.000Z';
const waiting = { decided_by: null, decided_at: null, reason: null };
const reservation = { name: 'Casa Olivo: table for 4', created_at: decidedAt, updated_at: decidedAt };
const table = {
  ...{ partner: 'dining', start_at: '2027-04-12T19:00:00.000Z', time_zone: 'Europe/Madrid', party_size: 4 },
};
const bookingId = 'b3c1b8a4-52f4-4d0e-9a51-0f4f9b3c7d21';

/** What the data of an event says beyond the examples of its fields, so that the parts of an example agree. */
const said: Partial<Record<EventType, object>> = {
  'quote.updated': { status: 'confirmed', updated_at: decidedAt },
  'booking.updated': { status: 'confirmed', updated_at: decidedAt },
  'handoff.awaiting_approval': {
    ...{ status: 'awaiting_approval', attempts: 0, completed_at: null },
    approval: { status: 'pending', ...waiting },
  },
  'handoff.rejected': {
    ...{ status: 'rejected', attempts: 0 },
    approval: {
      status: 'rejected',
      decided_by: {
        consumer_id: 'con_o2tBsovC6m7gYpQd',
        consumer_name: 'Trip desk',
        actor: 'ana@example.com',
      },
      decided_at: '2027-03-02T16:05:13.020Z',
      reason: 'The guest wants two beds.',
    },
  },
  'handoff.created': { status: 'created' },
  'handoff.failed': { status: 'failed', problem: failure() },
  'reservation.confirmed': reservationIn('confirmed', 'confirmed', 'confirmed'),
  'reservation.cancelled': reservationIn('cancelled', 'cancelled', 'cancelled'),
  'reservation.failed': reservationIn('failed', null, 'failed'),
  'reservation.needs_attention': reservationIn('needs_attention', 'pending', 'confirmed'),
  'webhook_endpoint.disabled': { enabled: false, disabled_reason: 'failing', updated_at: decidedAt },
};

function failure(): object {
  const { title, status } = problems.member_not_found;
  return {
    ...{ type: '/v1/problems/member_not_found', title, status },
    detail: 'The CRM has no member 8673c1d4-1752-87ae-aa59-227b6cc68c14.',
    ...{ code: 'member_not_found', request_id: '933bfcba-80b2-48dd-b31b-e58b7b06d3e3' },
  };
}

function reservationIn(status: string, booking: string | null, dining: string): object {
  return {
    ...{ ...reservation, status, erased_at: undefined, booking: { id: bookingId, status: booking } },
    dining: { ...table, booking_id: 'CO-51920', status: dining },
  };
}

/** An event of the type to a live consumer, as it is sent. `schema`: of the whole body. */
export function exampleEvent(type: EventType, schema: TSchema): object {
  const { mode: _mode, data_omitted: _omitted, ...event } = exampleOf(schema) as Record<string, unknown>;
  const data = { ...(event['data'] as object), ...said[type] };
  const resource = event['resource'] as { type: string; id: string };
  const { id = resource.id } = data as { id?: string };
  // Without what is undefined.
  return JSON.parse(JSON.stringify({ ...event, resource: { ...resource, id }, data })) as object;
}
