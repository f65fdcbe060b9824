import { Problem } from '../../../base/problem.ts';
import { entityTag } from '../../../resources/representation.ts';
import { requireMatch } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import * as shared from './shared.ts';

const gone = { status: 204 };

/** Deletes a record. A repeat that continues an interrupted deletion and finds the record gone has succeeded. */
export function removeRoute({ resource, records, represent, requireFree }: shared.RecordsContext): Route {
  return defineRoute({
    method: 'DELETE',
    path: `/v1/${resource.collection}/:id`,
    operationId: shared.operationId('delete', resource),
    tag: resource.collection,
    summary: shared.titled('Delete', resource),
    permission: { resource: resource.collection, action: 'delete' },
    idempotencyKey: 'required',
    conditional: 'If-Match',
    request: { params: shared.idParams('id', resource) },
    answers: { 204: { description: `The ${resource.name} is gone.` } },
    problems: ['crm_rejected', 'conflict', ...shared.crmProblems],
    admit: (call) => records.admit(call),
    async handle({ params, headers, call, claim }) {
      const { continued } = claim;
      const id = (params as { id: string }).id.toLowerCase();
      await requireFree(id);
      const record = await records.find(resource, id, call);
      if (!record) {
        if (continued) return gone;
        throw shared.notFound(resource);
      }
      requireMatch(headers['if-match'], entityTag(represent(record.values)));
      await claim.confirmOwnership();
      await records.remove(resource, record, call).catch((error: unknown) => {
        const isGone = error instanceof Problem && error.code === 'not_found';
        if (!(isGone && continued)) throw error;
      });
      return gone;
    },
  });
}
