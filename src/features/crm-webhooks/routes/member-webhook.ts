import type { IncomingHttpHeaders } from 'node:http';
import { type Static, Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { isUuid } from '../../../platform/base/text.ts';
import type { Webhooks } from '../webhooks.ts';
import { isMemberEvent, memberEventTypes } from '../webhooks-table.ts';

export type MemberWebhook = Pick<Webhooks, 'checkSignature' | 'receive'>;

const maxBodyBytes = 65_536;

const payload = Type.Object(
  {
    type: Type.String({
      pattern: '^[A-Za-z0-9_]+(\\.[A-Za-z0-9_]+)*$',
      maxLength: 100,
      description: `Type of the event: ${memberEventTypes.join(', ')}. Others are kept and ignored.`,
      examples: ['member.updated'],
    }),
    timestamp: Type.String({
      format: 'date-time',
      maxLength: 40,
      description: 'When it happened, RFC 3339.',
      examples: ['2027-03-02T16:05:12.000Z'],
    }),
    data: Type.Object(
      {
        external_id: Type.Optional(
          Type.String({
            maxLength: 255,
            format: 'text',
            description: 'External ID of the member, a UUID; the three types above need it.',
            examples: ['8673c1d4-1752-87ae-aa59-227b6cc68c14'],
          }),
        ),
      },
      {
        additionalProperties: true,
        description: 'The member it happened to.',
        examples: [{ external_id: '8673c1d4-1752-87ae-aa59-227b6cc68c14' }],
      },
    ),
  },
  { additionalProperties: false, title: 'MemberWebhook' },
);

const receipt = Type.Object(
  {
    status: Type.Enum(['accepted', 'duplicate'], {
      description: '`duplicate`: a webhook with this id had been accepted before.',
    }),
  },
  { additionalProperties: false, title: 'WebhookReceipt' },
);

export function memberWebhookRoute(webhooks: MemberWebhook): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/webhooks/crm/members',
    operationId: 'receiveMemberWebhook',
    tag: 'Webhooks',
    summary: 'Report that a member has changed in the CRM',
    description:
      'Standard Webhooks: `webhook-signature` signs `<webhook-id>.<webhook-timestamp>.<body>`. The response comes ' +
      'once the webhook is stored; it is processed within a second. Until the response is 202, send it again, with ' +
      'the same `webhook-id` and a new `webhook-timestamp`.',
    permission: { none: 'the request is signed instead' },
    signature: {
      isSent: ({ 'webhook-signature': sent }) => sent !== undefined,
      refusalOf: (headers, bytes) => webhooks.checkSignature(headers, bytes),
      sender: 'webhooks/crm',
      advice:
        'Sign the webhook with a secret this gateway knows and the current time; see webhook-id, ' +
        'webhook-timestamp and webhook-signature of Standard Webhooks.',
    },
    maxBodyBytes,
    idempotencyKey: 'ignored',
    request: { body: payload },
    answers: {
      202: {
        description: 'The webhook is stored, now or by an earlier request with its id.',
        schema: receipt,
        example: { status: 'accepted' },
      },
    },
    problems: ['store_unavailable'],
    prepare: (body) => ({
      occurredAt: new Date(body.timestamp),
      memberId: readMemberId(body),
    }),
    async handle({ body: { type }, prepared, headers, bodyText }) {
      const webhookId = idOf(headers);
      return json(202, {
        status: await webhooks.receive({ webhookId, type, ...prepared, payload: bodyText }),
      });
    },
  });
}

function idOf(headers: IncomingHttpHeaders): string {
  return String(headers['webhook-id']);
}

function readMemberId({ type, data }: Static<typeof payload>): string | null {
  if (!isMemberEvent(type)) return null;
  const { external_id: id } = data;
  if (id !== undefined && isUuid(id)) return id.toLowerCase();
  const message = id === undefined ? 'is missing' : 'must be a UUID';
  throw new Problem('invalid_request', `The body's "data.external_id" ${message}.`, {
    errors: [{ pointer: '#/data/external_id', message }],
  });
}
