import { Type } from 'typebox';
import { defineRoute, type Route } from '../../../api/route.ts';
import {
  type CursorCodec,
  defaultLimit,
  pageAnswer,
  pageParameters,
  pageSchema,
  shownAs,
} from '../../../api/routes/page.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import { type AuditEvent, auditActions, authorTypes } from '../../../identity/audit/audit-event.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import type { ConsumerDirectory } from '../../../identity/consumers/directory.ts';
import { idsManagedBy } from '../../../identity/consumers/test-families.ts';
import { modeOf } from '../../../platform/base/call.ts';
import { id, mode, moment, orNull, since } from './schemas.ts';

const text = (maxLength: number, description: string, example: string) =>
  Type.String({ maxLength, format: 'text', description, examples: [example] });
const action = Type.Enum(auditActions, {
  description:
    'The action. If `enabled` changed together with other fields, it is `consumer.enabled` or `consumer.disabled`.',
  examples: ['consumer.updated'],
});
const actorId = text(
  256,
  'Id of the consumer, name of the operating system user, or `service`.',
  'con_o2tBsovC6m7gYpQd',
);

const query = Type.Object(
  {
    ...pageParameters,
    action: Type.Optional(action),
    actor_id: Type.Optional(actorId),
    target_id: Type.Optional(id),
    since: since('Earlier events are left out.'),
  },
  { additionalProperties: false },
);

const fieldValue = (description: string, example: unknown) =>
  Type.Unsafe<unknown>({
    type: ['null', 'boolean', 'integer', 'string', 'array', 'object'],
    description,
    examples: [example],
    // Addresses and fingerprints are texts, permissions are objects.
    items: { type: ['string', 'object'], maxLength: 400 },
    minimum: 0,
    maximum: 2_147_483_647,
    maxLength: 400,
    maxItems: 150,
  });

const event = Type.Object(
  {
    id: text(36, 'Id of the event.', '0199f3a2-7c11-7001-8f53-2b6c1d9e4a07'),
    timestamp: moment('2027-03-01T08:00:00.000Z'),
    action,
    actor: Type.Object(
      {
        type: Type.Enum(authorTypes, {
          description: '`service`: the first start, which makes two consumers.',
          examples: ['consumer'],
        }),
        id: actorId,
        name: text(400, 'Its name.', 'Operations'),
        person: orNull(text(1020, 'The person named by X-Actor, or signed in.', 'marta.ruiz@example.com')),
        verified: Type.Boolean({ description: 'True: the person signed in.', examples: [false] }),
      },
      { description: 'Who did it.' },
    ),
    target: Type.Object(
      { id, name: text(400, 'Its name at the time; for a hand-off, its type.', 'Partner A') },
      { description: 'The consumer, or the hand-off by its External ID.' },
    ),
    address: orNull(text(64, "The request's address; null if there was none.", '192.0.2.17')),
    user_agent: orNull(text(255, 'The User-Agent header of the request.', 'curl/8.14.1')),
    request_id: orNull(text(128, 'The X-Request-Id of the request.', '933bfcba-80b2-48dd-b31b-e58b7b06d3e3')),
    changes: Type.Array(
      Type.Object({
        field: text(40, 'Name of the field.', 'rateLimitPerMinute'),
        from: fieldValue('Its value before; null for a new consumer.', null),
        to: fieldValue('Its value after.', 600),
      }),
      { maxItems: 20, description: 'The fields that were changed; never a secret.' },
    ),
    mode,
  },
  { title: 'AuditEvent', description: 'A change to a consumer, or a decision on a hand-off.' },
);

const shown = shownAs(event);

/** A change has the mode of the consumer that was changed, a decision that of who decided. */
function show(found: AuditEvent): unknown {
  const { action: done, actor, target } = found;
  return shown({ ...found, mode: modeOf(done.startsWith('handoff.') ? actor.id : target.id) });
}

export function listAuditEventsRoute(
  {
    audit,
    directory,
  }: { audit: Pick<Audit, 'listEvents'>; directory: Pick<ConsumerDirectory, 'newestFirst'> },
  cursors: CursorCodec,
): Route {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/audit-events',
    operationId: 'listAuditEvents',
    tag: 'Administration',
    summary: 'List changes to consumers',
    description:
      'Newest first, whether they were made here, on another replica or on the command line. One event per request. A cursor ' +
      'only works with the same filters.',
    permission: { resource: 'consumers', action: 'read' },
    idempotencyKey: 'ignored',
    request: { query },
    answers: {
      200: {
        description: 'A page.',
        schema: pageSchema(event, 'AuditEventPage', 'A page of changes to consumers.'),
      },
    },
    problems: ['invalid_cursor', 'store_unavailable'],
    async handle({ query: { limit = defaultLimit, cursor, since: from, ...filters }, consumer }) {
      const { action: done, actor_id, target_id } = filters;
      const list = JSON.stringify(['audit-events', done, actor_id, target_id, from]);
      const found = await audit.listEvents({
        ...filters,
        ...(from !== undefined && { since: Date.parse(from) }),
        ...(cursor !== undefined && { after: cursors.decode(cursor, list) as string }),
        byConsumers: idsManagedBy(consumer as Consumer, directory),
        limit: limit + 1,
      });
      return pageAnswer(found, limit, show, (last) => cursors.encode(last.id, list));
    },
  });
}
