import type { Call } from '../../../base/call.ts';
import { Problem } from '../../../base/problem.ts';
import { readFieldValues } from '../../../resources/field-values.ts';
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
      await records.create(resource, externalId, { ...values, status: 'created' }, call);
      const created = await settle(context, externalId, call).catch(afterWrite);
      // Somebody who found it in a list has deleted it already.
      return created ?? Promise.reject(shared.notFound(resource));
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
  if (!record) return undefined;
  const answer = shared.recordAnswer(201, context, record);
  return { ...answer, headers: { ...answer.headers, location: `/v1/${resource.collection}/${externalId}` } };
}

/** The write is done and only its result could not be read: the caller must not take it for undone. */
export function afterWrite(error: unknown): never {
  if (!(error instanceof Problem) || error.status < 500) throw error;
  throw new Problem(error.code, error.message, { ...error.facts, outcomeUnknown: true });
}
