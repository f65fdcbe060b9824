import { Type } from 'typebox';
import type { StoredAnswer } from '../../../api/idempotency/keyed-request.ts';
import { isMatch, userAgentOf } from '../../../api/pipeline/request-head.ts';
import { defineRoute, type Input, json, type Route } from '../../../api/route.ts';
import { newAuditEvent } from '../../../identity/audit/audit-event.ts';
import { type Consumer, needsApproval } from '../../../identity/consumers/consumer.ts';
import type { Caller } from '../../../identity/consumers/scopes.ts';
import { type Call, modeOf } from '../../../platform/base/call.ts';
import { wallMs } from '../../../platform/base/chance.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { StoredHandoff } from '../accepted.ts';
import { contentReplaced, type Decision } from '../approvals-table.ts';
import { targets } from '../handoff.ts';
import type { Handoffs } from '../handoffs.ts';
import { byType, find, one, params, requireWrittenFields, viewOfHandoffFor } from './accepted-handoffs.ts';
import { type HandoffView, handoffSchema, longestReason, tagOf, withoutHiddenFields } from './schemas.ts';

const who =
  'The caller needs write permission on its type, without `approval`, and must be a different consumer ' +
  'from the one that made the hand-off, and a different person where people sign in; test consumers may decide on their own. ' +
  'The person in `X-Actor`, or the signed-in one, is recorded. The same decision again gives the same response. The opposite one is a `conflict`, and so is any ' +
  'decision after 7 days, after `valid_until`, or once the hand-off was cancelled. Send the ETag of what you read as If-Match; ' +
  'without it, you decide on whatever the hand-off holds when the request arrives.';
const matches = {
  name: 'version',
  description: "The hand-off's `version` as you read it. Send it so that you decide on nothing else.",
};
const problems = ['not_found', 'conflict', 'store_unavailable'] as const;

export function approvalRoutes(handoffs: Handoffs): Route[] {
  return [approveRoute(handoffs), rejectRoute(handoffs)];
}

function approveRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/approve`,
    method: 'POST',
    operationId: 'approveHandoff',
    summary: 'Approve a hand-off',
    description: `It's then delivered. ${who}`,
    permission: byType(handoffs, 'write'),
    conditional: 'If-Match',
    tool: {
      name: 'approve_hand_off',
      description:
        'Approve a hand-off of another consumer that is waiting for approval. It is then written to the CRM. Do this only when a ' +
        "person who may approve it has said so, and read it with get_hand_off first. Can't be undone. Costs one CRM call.",
      isDestructive: true,
      decides: true,
      matches,
    },
    request: { params },
    answers: {
      202: {
        description: "It's delivered.",
        schema: handoffSchema,
        headers: { Location: 'Where the hand-off can be read.' },
      },
    },
    problems,
    ...byNow(handoffs),
    async handle({ params: { externalId: id }, ...request }) {
      const decided = await decide(handoffs, id, 'approved', request);
      return json(202, viewOfHandoffFor(request.consumer, decided), {
        location: `/v1/handoffs/${decided.externalId}`,
      });
    },
  });
}

const body = Type.Object(
  {
    reason: Type.String({
      minLength: 1,
      maxLength: longestReason,
      format: 'text',
      pattern: '\\S',
      description: 'Why it is rejected, for the consumer that made the hand-off.',
      examples: ['The price is above the limit of this trip.'],
    }),
  },
  { additionalProperties: false, title: 'HandoffRejection' },
);

function rejectRoute(handoffs: Handoffs): Route {
  return defineRoute({
    ...one,
    path: `${one.path}/reject`,
    method: 'POST',
    operationId: 'rejectHandoff',
    summary: 'Reject a hand-off',
    description: `It's never delivered. ${who}`,
    permission: byType(handoffs, 'write'),
    conditional: 'If-Match',
    tool: {
      name: 'reject_hand_off',
      description:
        'Reject a hand-off of another consumer that is waiting for approval, and tell its maker why. It is never written. ' +
        "Can't be undone. Costs no CRM call.",
      isDestructive: true,
      decides: true,
      matches,
    },
    request: { params, body },
    answers: { 200: { description: "It's rejected.", schema: handoffSchema } },
    problems,
    ...byNow(handoffs),
    async handle({ params: { externalId: id }, body: { reason }, ...request }) {
      return json(
        200,
        viewOfHandoffFor(request.consumer, await decide(handoffs, id, 'rejected', request, reason)),
      );
    },
  });
}

/** Each later one follows a replacement of the content between the check and the decision. */
const maxTries = 5;

type Request = Pick<Input<object, 'ignored', unknown>, 'consumer' | 'address' | 'headers' | 'call'>;

async function decide(
  handoffs: Handoffs,
  id: string,
  verdict: Decision['verdict'],
  request: Request,
  reason?: string,
): Promise<StoredHandoff> {
  const { consumer, headers, call } = request;
  const { id: consumer_id, name: consumer_name } = consumer as Consumer;
  const by = { consumer_id, consumer_name, actor: call.actor ?? null, verified: call.subject !== undefined };
  for (let tries = 1; tries <= maxTries; tries++) {
    const seen = await findToDecide(handoffs, id, request);
    if (!isMatch(headers['if-match'], tagOf(seen))) break;
    const audit = auditEventOf(seen, verdict, request);
    const decided = await handoffs.decide({ seen, verdict, by, reason, audit });
    if (decided) return decided;
  }
  throw contentReplaced();
}

function byNow(handoffs: Handoffs) {
  return {
    checkRepeat: async ({ params: { externalId: id }, ...request }: Decided) =>
      void (await findToDecide(handoffs, id, request)),
    showStored(answer: StoredAnswer, call: Call): StoredAnswer {
      if (answer.status >= 300) return answer;
      const stored = JSON.parse(answer.body) as HandoffView;
      const visible = call.visibleFields?.(targets[stored.type].collection);
      return { ...answer, body: JSON.stringify(withoutHiddenFields(stored, visible)) };
    },
  };
}

type Decided = Pick<Input<{ params: typeof params }, 'ignored', unknown>, 'params' | 'consumer' | 'call'>;

/** Throws where the caller may not decide on it. */
async function findToDecide(
  handoffs: Handoffs,
  id: string,
  { consumer, call }: Pick<Request, 'consumer' | 'call'>,
): Promise<StoredHandoff> {
  const handoff = await find(handoffs, id, consumer, 'write');
  await requireWrittenFields(handoffs, handoff, consumer);
  requireMayDecide(consumer as Caller, handoff, call);
  return handoff;
}

/**
 * By the consumer's id: whatever credentials it uses, it stays the one that made the hand-off. So does a person, whatever
 * consumer they act as.
 */
function requireMayDecide(consumer: Caller, handoff: StoredHandoff, call: Call): void {
  const { type, consumerId } = handoff;
  // It is alone in its world: it gives what it needs itself.
  if (modeOf(consumer.id) === 'test') return;
  const resource = targets[type].collection;
  const required = { resource, action: 'write' };
  if (needsApproval(consumer, resource))
    throw new Problem(
      'permission_denied',
      `These credentials themselves need approval on ${resource}, so they can't approve or reject.`,
      { required },
    );
  if (consumerId === consumer.id)
    throw new Problem('permission_denied', "A consumer can't decide on its own hand-offs.", { required });
  if (isOfPerson(handoff, call))
    throw new Problem('permission_denied', "You can't decide on your own hand-offs.", {
      required,
    });
}

/**
 * Whether who acts has handed it off, or it was handed off in their name. Where neither is proven a name says nothing: keys of
 * programs may all give the same.
 */
function isOfPerson({ subject, actor }: StoredHandoff, by: Call): boolean {
  if (subject === undefined && by.subject === undefined) return false;
  if (subject !== undefined && subject === by.subject) return true;
  return actor !== undefined && actor.toLowerCase() === by.actor?.toLowerCase();
}

function auditEventOf(
  { externalId, type }: StoredHandoff,
  verdict: Decision['verdict'],
  { consumer, address, headers, call }: Request,
) {
  const { id, name } = consumer as Consumer;
  return newAuditEvent(
    {
      action: `handoff.${verdict}`,
      actor: { type: 'consumer', id, name, person: call.actor ?? null, verified: call.subject !== undefined },
      target: { id: externalId, name: type },
      address,
      user_agent: userAgentOf(headers),
      request_id: call.requestId,
      changes: [{ field: 'approval', from: 'pending', to: verdict }],
    },
    wallMs(),
  );
}
