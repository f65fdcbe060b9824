import type { Call } from '../../../base/call.ts';
import { readFieldValues } from '../../../resources/field-values.ts';
import type { StoredRecord } from '../../../resources/records.ts';
import { creationSchema, representationSchema } from '../../../resources/representation.ts';
import { type Answer, defineRoute, type Route } from '../../route.ts';
import * as shared from './shared.ts';

/** Creates a record: an insert that carries the External ID chosen with the key, so that repeats make no second one. */
export function createRoute(context: shared.RecordsContext): Route {
  const { resource, records } = context;
  return defineRoute({
    method: 'POST',
    path: `/v1/${resource.collection}`,
    operationId: shared.operationId('create', resource),
    tag: resource.collection,
    summary: shared.titled('Create', resource),
    permission: { resource: resource.collection, action: 'write' },
    idempotencyKey: 'required',
    request: { body: creationSchema(resource) },
    answers: {
      201: {
        description: `The ${resource.name} exists in the CRM.`,
        schema: representationSchema(resource),
        headers: { ...shared.tagHeader, Location: 'Where the record can be read.' },
      },
    },
    problems: ['member_not_found', 'details_too_large', 'crm_rejected', 'not_found', ...shared.crmProblems],
    settle: (externalId, call) => settle(context, externalId, call),
    prepare: (body, bodyText) => readFieldValues(resource, body, bodyText),
    admit: (call) => records.admit(call),
    async handle({ prepared: values, call, claim }) {
      const { externalId } = claim;
      await claim.confirmOwnership();
      const record = await records.create(resource, externalId, { ...values, status: 'created' }, call, {
        readBack: true,
      });
      // Somebody who found it in a list has deleted it already.
      if (!record) throw shared.notFound(resource);
      return creationAnswer(context, record, externalId);
    },
  });
}

/** The answer of a creation whose record exists; undefined where there is none. */
async function settle(
  context: shared.RecordsContext,
  externalId: string,
  call: Call,
): Promise<Answer | undefined> {
  const { resource, records } = context;
  const record = await records.find(resource, externalId, call);
  return record && creationAnswer(context, record, externalId);
}

function creationAnswer(context: shared.RecordsContext, record: StoredRecord, externalId: string): Answer {
  const answer = shared.recordAnswer(201, context, record);
  const location = `/v1/${context.resource.collection}/${externalId}`;
  return { ...answer, headers: { ...answer.headers, location } };
}
