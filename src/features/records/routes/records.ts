import { Type } from 'typebox';
import {
  ageHeader,
  isConditional,
  readFreshness,
  requireMatch,
  tagHeader,
  unchanged,
  unlessNotModified,
} from '../../../api/pipeline/request-head.ts';
import { defineRoute, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { CursorCodec } from '../../../api/routes/page.ts';
import type { Call } from '../../../platform/base/call.ts';
import { crmProblems, Problem } from '../../../platform/base/problem.ts';
import { creatorOf } from '../../../records/created-by.ts';
import { readFieldValues } from '../../../records/field-values.ts';
import type { FieldValues, StoredRecord } from '../../../records/records.ts';
import { creationSchema, representationSchema } from '../../../records/representation.ts';
import type { Resource } from '../../../records/resource.ts';
import { changeRoute } from './change.ts';
import * as shared from './context.ts';
import { listRoute } from './list.ts';

export function recordRoutes(context: shared.RecordsContext, cursors: CursorCodec): Route[] {
  return [
    listRoute(context, cursors),
    createRoute(context),
    readRoute(context, 'id'),
    changeRoute(context),
    removeRoute(context),
  ];
}

/** Creates a record: an insert with the External ID that was chosen with the key, so that repeats make no second one. */
function createRoute(context: shared.RecordsContext): Route {
  const { resource, records } = context;
  return defineRoute({
    method: 'POST',
    path: `/v1/${resource.collection}`,
    operationId: shared.operationId('create', resource),
    tag: shared.tags[resource.collection],
    summary: shared.titled('Create', resource),
    permission: { resource: resource.collection, action: 'write' },
    looksFirst: true,
    idempotencyKey: 'required',
    requested: { about: shared.subjects(resource), makes: true },
    request: { body: creationSchema(resource) },
    answers: {
      201: {
        description: `The ${resource.name} exists in the CRM.`,
        schema: representationSchema(context.withMember ?? resource),
        headers: { ...tagHeader, Location: 'Where the record can be read.' },
      },
    },
    problems: [
      'member_not_found',
      'details_too_large',
      'crm_rejected',
      'not_found',
      'conflict',
      ...crmProblems,
    ],
    reconcile: (externalId, call) => reconcile(context, externalId, call),
    ...shared.byFields(context, shared.requiredFields(context)),
    prepare: (body, bodyText) => readFieldValues(resource, body, bodyText),
    admit: (call) => shared.admitShown(context, call),
    async handle({ prepared: values, call, claim }) {
      const { externalId } = claim;
      const fields = { ...values, status: 'created' };
      const mayExist = claim.continued;
      const record = await records.createAndRead(resource, externalId, fields, call, { mayExist });
      const made = record ?? { values: writtenValues(context, externalId, fields, call) };
      return creationAnswer(context, made, externalId, call);
    },
  });
}

/** For a record that the CRM has made and doesn't show: the owner that it got may hide it. */
function writtenValues(
  { resource, records }: shared.RecordsContext,
  externalId: string,
  values: FieldValues,
  call: Call,
): FieldValues {
  const none = Object.fromEntries(Object.keys(resource.fields).map((name) => [name, null]));
  const at = new Date(records.now()).toISOString();
  const given = { ...creatorOf(resource, call), ...values, id: externalId };
  return { ...none, ...given, created_at: at, updated_at: at };
}

/** The answer of a creation whose record exists, or was deleted since; undefined if it was never created. */
async function reconcile(
  context: shared.RecordsContext,
  externalId: string,
  call: Call,
): Promise<RouteAnswer | undefined> {
  const { resource, records } = context;
  const record = await records.findWithDeleted(resource, externalId, call);
  return record && creationAnswer(context, record, externalId, call);
}

function creationAnswer(
  context: shared.RecordsContext,
  record: Pick<StoredRecord, 'values'>,
  externalId: string,
  call: Call,
): RouteAnswer {
  const answer = shared.recordAnswer(201, context, record, call);
  const location = `/v1/${context.resource.collection}/${externalId}`;
  return { ...answer, headers: { ...answer.headers, location } };
}

export function readRoute(context: shared.ReadingContext, idName: string): Route {
  const { resource, records } = context;
  return defineRoute({
    method: 'GET',
    path: `/v1/${resource.collection}/:${idName}`,
    operationId: shared.operationId('get', resource),
    tag: shared.tags[resource.collection],
    summary: shared.titled('Read', resource),
    permission: { resource: resource.collection, action: 'read' },
    idempotencyKey: 'ignored',
    conditional: 'If-None-Match',
    takesAge: true,
    tool: {
      name: `get_${resource.name}`,
      description: `Read one ${resource.name} by its id, as the CRM has it now. Costs one CRM call at most.`,
    },
    request: {
      params: shared.idParams(idName, resource),
      query: Type.Object(shared.includeOf(context), { additionalProperties: false }),
    },
    answers: {
      200: {
        description: `The ${resource.name}.`,
        schema: representationSchema(context.withMember ?? resource),
        headers: { ...tagHeader, ...shared.agedHeader },
      },
      304: unchanged({ ...tagHeader, ...shared.agedHeader }),
    },
    problems: ['not_found', ...crmProblems],
    events: { resource: resource.name, examples: updateExample(resource) },
    async handle({ params, query, headers, consumer, call }) {
      const { [idName]: id = '' } = params as Record<string, string>;
      call.freshness = readFreshness(headers);
      const asked = shared.readAs(context, query, { consumer, call });
      const record = await records.find(asked.resource, id.toLowerCase(), call);
      if (!record) throw shared.recordNotFound(resource);
      const included = asked.resource === resource ? undefined : asked.represent;
      const answer = shared.recordAnswer(200, context, record, call, included);
      Object.assign(answer.headers, ageHeader(record));
      return unlessNotModified(headers['if-none-match'], answer);
    },
  });
}

function updateExample({ name, fields }: Resource) {
  if (!('status' in fields)) return {};
  return { [`${name}.updated`]: { status: 'confirmed', updated_at: '2027-03-02T16:05:12.000Z' } };
}

const gone = { status: 204 };

/** Deletes a record. A repeat of an interrupted deletion that finds the record gone has succeeded. */
export function removeRoute(context: shared.RecordsContext): Route {
  const { resource, records, requireFree } = context;
  return defineRoute({
    method: 'DELETE',
    path: `/v1/${resource.collection}/:id`,
    operationId: shared.operationId('delete', resource),
    tag: shared.tags[resource.collection],
    summary: shared.titled('Delete', resource),
    description: shared.ifMatchDescription,
    permission: { resource: resource.collection, action: 'delete' },
    idempotencyKey: 'required',
    requested: { about: shared.subjects(resource) },
    conditional: 'If-Match',
    request: { params: shared.idParams('id', resource) },
    answers: { 204: { description: `The ${resource.name} is gone.` } },
    problems: ['crm_rejected', 'conflict', ...crmProblems],
    checkSeen: shared.checkSeen(context),
    admit: (call) => records.admit(call),
    async handle({ params, headers, call, claim }) {
      const id = shared.idOf(params);
      const ifMatch = headers['if-match'];
      const conditional = isConditional(ifMatch);
      await requireFree(id, call);
      if (conditional) await shared.leaseVisible(context, id, claim, call);
      // An earlier run under this claim may have deleted it; a conditional one only after its check.
      const isOurs = conditional ? claim.before !== undefined : claim.continued;
      const record = await records.find(resource, id, call);
      if (!record) {
        if (isOurs && (await shared.isSeen(context, id, call)) !== false) return gone;
        throw shared.recordNotFound(resource);
      }
      if (conditional) {
        const { shown, state } = shared.tagsOf(context, record, call);
        requireMatch(ifMatch, shown);
        await claim.rememberBefore(state);
      }
      await claim.confirmOwnership();
      await records.remove(resource, record, call).catch((error: unknown) => {
        const isGone = error instanceof Problem && error.code === 'not_found';
        if (!(isGone && isOurs)) throw error;
      });
      return gone;
    },
  });
}
