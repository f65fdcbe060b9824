import { isNotModified } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import { tagHeader } from '../records/shared.ts';
import {
  idParams,
  notFound,
  permission,
  type ReservationsContext,
  reservationSchema,
  viewAnswer,
} from './shared.ts';

/** Reads a reservation, joined with how table and booking stand now. */
export function readReservationRoute({ reservations }: ReservationsContext): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/reservations/:id',
    operationId: 'getReservation',
    tag: 'reservations',
    summary: 'Read a reservation',
    description:
      'Asks the partner and the CRM how their parts stand. A part that cannot be asked has the status `unknown`.',
    permission: permission('read'),
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    request: { params: idParams },
    answers: {
      200: { description: 'The reservation.', schema: reservationSchema, headers: tagHeader },
      304: { description: 'It is still as If-None-Match names it.', headers: tagHeader },
    },
    problems: ['not_found', 'store_unavailable'],
    async handle({ params, headers, call }) {
      const view = await reservations.read(params.id.toLowerCase(), call);
      if (!view) throw notFound();
      const answer = viewAnswer(200, view);
      if (!isNotModified(headers['if-none-match'], answer.headers['etag'] ?? '')) return answer;
      const { 'content-type': _, ...rest } = answer.headers;
      return { status: 304, headers: rest };
    },
  });
}
