import { Type } from 'typebox';
import {
  isConditional,
  requireMatch,
  tagBeside,
  unchanged,
  unlessNotModified,
} from '../../../api/pipeline/request-head.ts';
import { defineRoute, json, type Permission, type Route, type RouteAnswer } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  includeParameter,
  pageAnswer,
  pageParameters,
  pageSchema,
  requireMembers,
} from '../../../api/routes/page.ts';
import { allows, type Consumer, type PermissionAction } from '../../../identity/consumers/consumer.ts';
import {
  requireFields,
  requireNoApproval,
  requireOneOf,
  visibleFields,
  visibleRecords,
} from '../../../identity/consumers/permissions.ts';
import { isRecordVisible } from '../../../platform/base/call.ts';
import { Problem, problems } from '../../../platform/base/problem.ts';
import { escapeDirections, isUuid } from '../../../platform/base/text.ts';
import { type MemberSource, membersBeside } from '../../../records/member-names.ts';
import { booking, handedOffFields } from '../../../records/quotes-and-bookings.ts';
import { entityTag } from '../../../records/representation.ts';
import type { Readable, StoredHandoff } from '../accepted.ts';
import { type HandoffType, targets } from '../handoff.ts';
import type { Handoffs } from '../handoffs.ts';
import {
  acceptance,
  attemptsView,
  externalId,
  type HandoffView,
  handoffEventSchema,
  handoffSchema,
  handoffStatus,
  handoffType,
  tagOf,
  viewOfHandoff,
  withoutHiddenFields,
} from './schemas.ts';

const handoffEventExamples = {
  'handoff.awaiting_approval': {
    status: 'awaiting_approval',
    attempts: 0,
    completed_at: null,
    approval: { status: 'pending', decided_by: null, decided_at: null, reason: null },
  },
  'handoff.rejected': {
    status: 'rejected',
    attempts: 0,
    approval: {
      status: 'rejected',
      decided_by: {
        consumer_id: 'con_o2tBsovC6m7gYpQd',
        consumer_name: 'Trip desk',
        actor: 'ana@example.com',
        verified: false,
      },
      decided_at: '2027-03-02T16:05:13.020Z',
      reason: 'The guest wants two beds.',
    },
  },
  'handoff.created': { status: 'created' },
  'handoff.failed': {
    status: 'failed',
    problem: {
      type: '/v1/problems/member_not_found',
      title: problems.member_not_found.title,
      status: problems.member_not_found.status,
      detail: 'The CRM has no member 8673c1d4-1752-87ae-aa59-227b6cc68c14.',
      code: 'member_not_found',
      request_id: '933bfcba-80b2-48dd-b31b-e58b7b06d3e3',
    },
  },
};

interface AcceptedParts {
  handoffs: Handoffs;
  memberSource: MemberSource;
}

const all = { path: '/v1/handoffs', tag: 'Hand-off', idempotencyKey: 'ignored' } as const;
export const one = { ...all, path: `${all.path}/:externalId` } as const;
export const params = Type.Object({ externalId }, { additionalProperties: false });

function either(...actions: PermissionAction[]): Extract<Permission, { anyOf: unknown }> {
  return {
    anyOf: actions.flatMap((action) => [
      { resource: 'quotes' as const, action },
      { resource: 'bookings' as const, action },
    ]),
  };
}

export function byType(
  handoffs: Handoffs,
  action: PermissionAction,
  ...others: PermissionAction[]
): Permission {
  return {
    ...either(action, ...others),
    byPath: async (sent, consumer) => {
      // The path is not checked yet.
      const { externalId: id } = sent as { externalId: string };
      const handoff = isUuid(id) ? await findVisible(handoffs, id, consumer) : undefined;
      return handoff && { resource: targets[handoff.type].collection, action };
    },
  };
}

export function acceptedHandoffRoutes(parts: AcceptedParts, cursors: CursorCodec): Route[] {
  const { handoffs } = parts;
  return [listRoute(parts, cursors), readRoute(parts), retryRoute(handoffs), cancelRoute(handoffs)];
}

const query = Type.Object(
  {
    ...pageParameters,
    status: Type.Optional(handoffStatus),
    type: Type.Optional(handoffType),
    trip_id: Type.Optional(booking.fields.trip_id.schema),
    ...includeParameter,
  },
  { additionalProperties: false },
);

function listRoute({ handoffs, memberSource }: AcceptedParts, cursors: CursorCodec): Route {
  return defineRoute({
    ...all,
    method: 'GET',
    operationId: 'listHandoffs',
    summary: 'List queued hand-offs',
    description: 'Newest first, of the types that the caller may read. They are kept for 30 days.',
    permission: either('read'),
    tool: {
      name: 'list_hand_offs',
      description:
        'Find hand-offs that were stored to be delivered later or to be approved, newest first; filter by status to see what ' +
        "waits (awaiting_approval) or has failed. Costs no CRM call. Those that were created at once aren't here but among quotes and bookings.",
    },
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(handoffSchema, 'HandoffPage', 'A page of hand-offs.'),
      },
    },
    problems: ['invalid_cursor', 'store_unavailable'],
    async handle({
      query: { limit = defaultLimit, cursor, status, type, trip_id, include },
      consumer,
      call,
    }) {
      const tripId = trip_id?.toLowerCase();
      const list = JSON.stringify(['handoffs', consumer?.id, status, type, tripId]);
      const readable = readableBy(consumer, type);
      if (tripId !== undefined) requireTripId(consumer as Consumer, readable);
      const found = await handoffs.list({
        readable,
        status,
        tripId,
        after: cursor === undefined ? undefined : (cursors.decode(cursor, list) as string),
        limit: limit + 1,
      });
      const collections = (Object.keys(readable) as HandoffType[]).map((name) => targets[name].collection);
      if (include) requireMembers(consumer, collections);
      const beside = await membersBeside(found, memberOf, {
        ...{ include, source: memberSource, call },
        mayCall: false,
      });
      const page = pageAnswer(
        found,
        limit,
        (handoff) => viewBeside(viewOfHandoffFor(consumer, handoff), beside(handoff)),
        ({ sequence }) => cursors.encode(sequence, list),
      );
      return shownAnswer(page);
    },
  });
}

const tagHeader = {
  ETag: 'Tag for If-None-Match, and for If-Match in a decision or a cancellation, which also take it if only the status has changed.',
};

function readRoute({ handoffs, memberSource }: AcceptedParts): Route {
  return defineRoute({
    ...one,
    method: 'GET',
    operationId: 'getHandoff',
    summary: 'Read a queued hand-off',
    description:
      "Its `status` says how far along it is. Hand-offs that were answered 201 aren't here; read the quote or the booking.",
    permission: byType(handoffs, 'read'),
    conditional: 'If-None-Match',
    tool: {
      name: 'get_hand_off',
      description:
        'See how far a stored hand-off is, who decided on it, and, while it is waiting for approval, everything that would be ' +
        'written. Costs no CRM call.',
    },
    request: { params, query: Type.Object(includeParameter, { additionalProperties: false }) },
    answers: {
      200: {
        description: 'The hand-off.',
        schema: handoffSchema,
        headers: tagHeader,
      },
      304: unchanged(tagHeader),
    },
    problems: ['not_found', 'store_unavailable'],
    events: { resource: 'handoff', data: handoffEventSchema, examples: handoffEventExamples },
    async handle({ params: { externalId: id }, query: { include }, headers, consumer, call }) {
      const handoff = await find(handoffs, id, consumer, 'read');
      if (include) requireMembers(consumer, [targets[handoff.type].collection]);
      const beside = await membersBeside([handoff], memberOf, {
        ...{ include, source: memberSource, call },
        mayCall: false,
      });
      const attempts = attemptsView(handoff, fieldsVisibleTo(consumer, handoff));
      const view = viewBeside(viewOfHandoffFor(consumer, handoff), { ...attempts, ...beside(handoff) });
      return unlessNotModified(headers['if-none-match'], await readAnswer(handoffs, handoff, view));
    },
  });
}

async function readAnswer(handoffs: Handoffs, handoff: StoredHandoff, view: Pick<HandoffView, 'request'>) {
  const text = JSON.stringify(view);
  const details = view.request === null ? undefined : await handoffs.details(handoff.externalId);
  // The result is the last of the request, which is the last of the view; digits stay as they are.
  const body = details === undefined ? text : `${text.slice(0, -'}}}'.length)},"details":${details}}}}`;
  const headers = { etag: tagBeside(tagOf(handoff), entityTag(body)) };
  return shownAnswer({ status: 200, headers, body });
}

function memberOf({ memberId }: StoredHandoff): string | undefined {
  return memberId;
}

/** The request stays last: details may follow it. */
function viewBeside({ request, ...view }: HandoffView, beside: object) {
  return { ...view, ...beside, request };
}

/** An answer by which people decide. JSON means the same with and without these escapes. */
function shownAnswer<A extends RouteAnswer>({ body = '', ...answer }: A) {
  return { ...answer, body: escapeDirections(body.toString()) };
}

function retryRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/retry`,
    method: 'POST',
    operationId: 'retryHandoff',
    summary: 'Retry a failed hand-off',
    description: 'Use it once the cause of the failure is gone. The External ID stays the same.',
    permission: byType(handoffs, 'write'),
    request: { params },
    answers: {
      202: {
        description: "It's being retried.",
        schema: acceptance,
        headers: { Location: 'Where the hand-off can be read.' },
      },
    },
    problems: ['not_found', 'conflict', 'approval_required', 'crm_unavailable', 'store_unavailable'],
    async handle({ params: { externalId: id }, consumer }) {
      const handoff = await find(handoffs, id, consumer, 'write');
      await requireWrittenFields(handoffs, handoff, consumer);
      if (handoff.approval?.status !== 'approved') requireNoApprovalOf(handoff, consumer, 'write');
      await handoffs.retry(handoff);
      return acceptedAnswer(handoff.type, handoff.externalId, 'accepted');
    },
  });
}

function cancelRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    method: 'DELETE',
    operationId: 'cancelHandoff',
    summary: 'Cancel a hand-off that is waiting or has failed',
    description:
      "It won't be delivered. If a call in progress still creates the record, the record is deleted. " +
      'Cancelling it again gives the same response. To cancel its own hand-off that is waiting for approval, a ' +
      'consumer needs the permission to write only. Send the ETag of what you read as If-Match, and nothing else is cancelled.',
    permission: byType(handoffs, 'delete', 'write'),
    conditional: 'If-Match',
    request: { params },
    answers: { 204: { description: "It's cancelled." } },
    problems: ['not_found', 'conflict', 'approval_required', 'store_unavailable'],
    async handle({ params: { externalId: id }, headers: { 'if-match': expected }, consumer }) {
      const handoff = await find(handoffs, id, consumer, mayTakeBack);
      if (handoff.consumerId !== consumer?.id) requireNoApprovalOf(handoff, consumer, 'delete');
      // Without the permission to delete it must still wait for approval when it is cancelled.
      const mayDelete = allows(consumer as Consumer, targets[handoff.type].collection, 'delete');
      requireMatch(expected, tagOf(handoff));
      await handoffs.cancel(handoff, {
        ...(!mayDelete && { states: ['awaiting_approval'] as const }),
        isAsSeen: isConditional(expected),
      });
      return { status: 204 };
    },
  });
}

export function acceptedAnswer(
  type: HandoffType,
  external_id: string,
  status: 'accepted' | 'awaiting_approval',
  headers: Record<string, string> = {},
): RouteAnswer {
  const body = { type, status, external_id };
  return json(202, body, { location: `/v1/handoffs/${external_id}`, ...headers });
}

function mayTakeBack({ status, consumerId }: StoredHandoff, { id }: Consumer): PermissionAction {
  return status === 'awaiting_approval' && consumerId === id ? 'write' : 'delete';
}

function requireNoApprovalOf(
  { type }: StoredHandoff,
  consumer: Consumer | undefined,
  action: PermissionAction,
): void {
  requireNoApproval(consumer as Consumer, { resource: targets[type].collection, action });
}

/** The hand-off, where the caller may do this with its type. Throws `not_found`, `permission_denied`. */
export async function find(
  handoffs: Handoffs,
  id: string,
  consumer: Consumer | undefined,
  needed: PermissionAction | ((handoff: StoredHandoff, caller: Consumer) => PermissionAction),
): Promise<StoredHandoff> {
  // Every route here needs credentials.
  const caller = consumer as Consumer;
  // Before the permission: a refusal of the action would show that there is one.
  const handoff = await findVisible(handoffs, id, caller);
  if (handoff === undefined)
    throw new Problem(
      'not_found',
      "There's no queued hand-off with this id. Hand-offs that were answered 201 are quotes and bookings.",
    );
  const action = typeof needed === 'string' ? needed : needed(handoff, caller);
  requireOneOf(caller, [{ resource: targets[handoff.type].collection, action }]);
  return handoff;
}

async function findVisible(
  handoffs: Handoffs,
  id: string,
  consumer: Consumer,
): Promise<StoredHandoff | undefined> {
  const handoff = await handoffs.find(id.toLowerCase());
  if (handoff === undefined) return undefined;
  const visible = visibleRecords(consumer, targets[handoff.type].collection);
  return isRecordVisible(visible, handoff.consumerId) ? handoff : undefined;
}

export function readableBy(consumer: Consumer | undefined, type: HandoffType | undefined): Readable {
  const readable: Readable = {};
  for (const { name, collection } of Object.values(targets)) {
    const isWanted = type === undefined || type === name;
    if (!isWanted || consumer === undefined || !allows(consumer, collection, 'read')) continue;
    readable[name] = visibleRecords(consumer, collection);
  }
  return readable;
}

/** Throws `permission_denied` where the trip is hidden in what the caller may read. */
function requireTripId(consumer: Consumer, readable: Readable): void {
  for (const type of Object.keys(readable) as HandoffType[])
    requireFields(consumer, { resource: targets[type].collection, action: 'read' }, () => ['trip_id']);
}

export function viewOfHandoffFor(consumer: Consumer | undefined, handoff: StoredHandoff) {
  return withoutHiddenFields(viewOfHandoff(handoff), fieldsVisibleTo(consumer, handoff));
}

function fieldsVisibleTo(consumer: Consumer | undefined, { type }: StoredHandoff) {
  return visibleFields(consumer as Consumer, targets[type].collection);
}

/** Throws `permission_denied` where the caller may not write all that the hand-off does, also by the mapping. */
export async function requireWrittenFields(
  handoffs: Handoffs,
  handoff: StoredHandoff,
  consumer: Consumer | undefined,
): Promise<void> {
  const { collection: resource } = targets[handoff.type];
  if (visibleFields(consumer as Consumer, resource) === undefined) return;
  const written = [...handedOffFields, ...(await handoffs.namesFrom(handoff))];
  requireFields(consumer as Consumer, { resource, action: 'write' }, () => written);
}
