import {
  requireMatch,
  unchanged,
  unlessNotModified,
  userAgentOf,
} from '../../../api/pipeline/request-head.ts';
import type { Input, RouteAnswer } from '../../../api/route.ts';
import type { Audit } from '../../../identity/audit/audit.ts';
import type { Authority } from '../../../identity/consumers/authority.ts';
import type { Consumer } from '../../../identity/consumers/consumer.ts';
import { viewOfConsumer } from '../../../identity/consumers/consumer-view.ts';
import type { Caller } from '../../../identity/consumers/scopes.ts';
import type { Allowances } from '../../../identity/rate-limits/allowances.ts';
import { wallMs } from '../../../platform/base/chance.ts';
import { entityTag } from '../../../records/representation.ts';

export const noUses = new Map<string, string>();
export const tagHeaders = {
  ETag: 'Entity tag of the consumer without its last use, for If-Match and If-None-Match.',
};
export const readAnswers = {
  200: { description: 'The consumer.', headers: tagHeaders },
  304: unchanged(tagHeaders),
};

type Request = Pick<Input<object, 'ignored', unknown>, 'consumer' | 'address' | 'headers' | 'call'>;

export function authorityOf({ consumer, address, headers: sent, call }: Request): Authority {
  // Every route here needs credentials.
  const { id, name, scopes, person } = consumer as Caller;
  return {
    callerId: id,
    scopes,
    isPerson: person !== undefined,
    author: {
      actor: { type: 'consumer', id, name, person: call.actor ?? null, verified: person !== undefined },
      address,
      user_agent: userAgentOf(sent),
      request_id: call.requestId,
    },
  };
}

export function conditionalAuthorityOf(request: Request): Authority {
  const ifMatch = request.headers['if-match'];
  if (ifMatch === undefined) return authorityOf(request);
  const precondition = (consumer: Consumer) => requireMatch(ifMatch, tagOf(consumer));
  return { ...authorityOf(request), precondition };
}

/** Leaves out what uses of the credentials change: they must not make a change fail. */
function tagOf(consumer: Consumer): string {
  return entityTag(JSON.stringify(viewOfConsumer(consumer, wallMs(), noUses)));
}

/** With what is used of an allowance, which changes with each request and isn't in the tag: then there is no 304. */
export async function conditionalAnswer(
  known: string | undefined,
  consumer: Consumer,
  { audit, allowances }: { audit: Pick<Audit, 'lastUses'>; allowances: Pick<Allowances, 'used'> },
): Promise<RouteAnswer> {
  const allowance = await allowances.used(consumer);
  const answer = await consumerAnswer(consumer, audit, { allowance });
  return allowance ? answer : unlessNotModified(known, answer);
}

export async function consumerAnswer(consumer: Consumer, audit: Pick<Audit, 'lastUses'>, more: object = {}) {
  const uses = await audit.lastUses([consumer]);
  const body = JSON.stringify({ ...viewOfConsumer(consumer, wallMs(), uses), ...more });
  return { status: 200, body, headers: { etag: tagOf(consumer) } };
}
