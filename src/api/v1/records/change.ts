import { Problem } from '../../../base/problem.ts';
import { readFieldValues } from '../../../resources/field-values.ts';
import type { FieldValues, StoredRecord } from '../../../resources/records.ts';
import { changeSchema, entityTag, representationSchema } from '../../../resources/representation.ts';
import { requireMatch } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import * as shared from './shared.ts';

/** Changes a record: each field that is sent replaces the whole value. */
export function changeRoute(context: shared.RecordsContext): Route {
  const { resource, records, represent, requireFree } = context;
  return defineRoute({
    method: 'PATCH',
    path: `/v1/${resource.collection}/:id`,
    operationId: shared.operationId('change', resource),
    tag: resource.collection,
    summary: shared.titled('Change', resource),
    description:
      'If-Match is checked just before the write; the CRM has no compare-and-set for these records, so that a change ' +
      'within that moment is not noticed.',
    permission: { resource: resource.collection, action: 'write' },
    idempotencyKey: 'required',
    conditional: 'If-Match',
    request: { params: shared.idParams('id', resource), body: changeSchema(resource) },
    requestExample: { name: 'Hotel Miramar, Málaga: suite with sea view, 4 nights' },
    answers: {
      200: {
        description: `The ${resource.name} as it is now.`,
        schema: representationSchema(resource),
        headers: shared.tagHeader,
      },
    },
    problems: [
      'not_found',
      'member_not_found',
      'details_too_large',
      'crm_rejected',
      'conflict',
      ...shared.crmProblems,
    ],
    prepare: (body, bodyText) => readFieldValues(resource, body, bodyText),
    admit: (call) => records.admit(call),
    async handle({ params, prepared: values, headers, call, claim }) {
      const id = (params as { id: string }).id.toLowerCase();
      await requireFree(id);
      const record = await records.find(resource, id, call);
      if (!record) throw shared.notFound(resource);
      const tag = entityTag(represent(record.values));
      if (claim.before === undefined) {
        requireMatch(headers['if-match'], tag);
        await claim.rememberBefore(tag);
      } else if (hasValues(record, values)) {
        // An earlier owner of the claim, or its lost answer, got as far as the write.
        return shared.recordAnswer(200, context, record);
      } else if (claim.before !== tag) {
        throw changedMeanwhile();
      }
      await claim.confirmOwnership();
      const changed = await records.update(resource, record, values, call, { readBack: true });
      if (!changed) throw shared.notFound(resource);
      return shared.recordAnswer(200, context, changed);
    },
  });
}

function hasValues(record: StoredRecord, values: FieldValues): boolean {
  return Object.entries(values).every(([name, value]) => record.values[name] === value);
}

function changedMeanwhile(): Problem {
  const detail =
    'The record was changed by somebody else while this change was interrupted. Read it and decide anew.';
  return new Problem('conflict', detail);
}
