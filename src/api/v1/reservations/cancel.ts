import { requireMatch } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import { crmProblems } from '../records/shared.ts';
import { partnerProblems } from './create.ts';
import { idParams, notFound, permission, type ReservationsContext, viewAnswer } from './shared.ts';

/** Cancels the table, then the booking of it. */
export function cancelReservationRoute({ reservations }: ReservationsContext): Route {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/reservations/:id',
    operationId: 'cancelReservation',
    tag: 'reservations',
    summary: 'Cancel a reservation',
    description:
      'Cancels the table, and then notes it in the CRM. Where the partner refuses, nothing changes and the answer is ' +
      '409. A reservation that is cancelled already is answered in the same way; it can still be read.',
    permission: permission('delete'),
    idempotencyKey: 'required',
    conditional: 'If-Match',
    request: { params: idParams },
    answers: { 204: { description: 'Table and booking are cancelled.' } },
    problems: ['not_found', 'conflict', 'crm_rejected', ...crmProblems, ...partnerProblems],
    async handle({ params, headers, call, claim }) {
      const id = params.id.toLowerCase();
      // Whoever continues may have changed it already.
      if (headers['if-match'] !== undefined && !claim.continued) {
        const view = await reservations.read(id, call);
        if (!view) throw notFound();
        requireMatch(headers['if-match'], viewAnswer(200, view).headers['etag'] ?? '');
      }
      return reservations.cancel(id, claim, call);
    },
  });
}
