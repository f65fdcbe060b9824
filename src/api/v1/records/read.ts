import { representationSchema } from '../../../resources/representation.ts';
import { isNotModified } from '../../pipeline/conditional.ts';
import { defineRoute, type Route } from '../../route.ts';
import * as shared from './shared.ts';

/** Reads one record by its External ID; `idName` is what the path calls it. */
export function readRoute(context: shared.ReadingContext, idName: string): Route {
  const { resource, records } = context;
  return defineRoute({
    method: 'GET',
    path: `/v1/${resource.collection}/:${idName}`,
    operationId: shared.operationId('get', resource),
    tag: resource.collection,
    summary: shared.titled('Read', resource),
    permission: { resource: resource.collection, action: 'read' },
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    request: { params: shared.idParams(idName, resource) },
    answers: {
      200: {
        description: `The ${resource.name}.`,
        schema: representationSchema(resource),
        headers: shared.tagHeader,
      },
      304: { description: 'The record is still as If-None-Match names it.', headers: shared.tagHeader },
    },
    problems: ['not_found', ...shared.crmProblems],
    async handle({ params, headers, call }) {
      const { [idName]: id = '' } = params as Record<string, string>;
      const record = await records.find(resource, id.toLowerCase(), call);
      if (!record) throw shared.notFound(resource);
      const answer = shared.recordAnswer(200, context, record);
      if (!isNotModified(headers['if-none-match'], answer.headers.etag)) return answer;
      return { status: 304, headers: answer.headers };
    },
  });
}
