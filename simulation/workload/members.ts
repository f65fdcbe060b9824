import { createHmac } from 'node:crypto';
import type { Request } from '../auditor/facts.ts';
import type { Stage } from '../stage.ts';
import type { Random } from '../virtual/random.ts';
import type { Action } from './writes.ts';

const mostTries = 60;

/** Somebody in the org renames a member, whom clients have read before, and the org reports it until it hears 202. */
export const reportMember: Action = async (stage, random) => {
  const { client, org, journal, world, auditor } = stage;
  const id = random.pick(stage.members);
  await client.send({ method: 'GET', path: `/v1/members/${id}`, as: 'boss' });
  const name = `Okafor ${random.whole(1, 1_000_000)}`;
  await org.do('PATCH', `records/Contact?External_Id__c=${id}`, { LastName: name });
  const webhook = auditor.webhooks.begin(random.uuid(), id);
  const body = JSON.stringify({
    type: 'member.updated',
    timestamp: new Date(world.wall).toISOString(),
    data: { external_id: id },
  });
  for (let tries = 0; tries < mostTries && !webhook.isHeard; tries++) {
    const answer = await send(stage, random, webhook.id, body);
    journal.note(`the org reports that ${id} is ${name}: ${answer?.status ?? 'no answer'}`);
    auditor.webhooks.heard(webhook, answer);
    if (!webhook.isHeard || random.chance(0.2)) await world.pause(random.between(100, 2000));
  }
  // A sender that lost the answer, or its memory, repeats.
  if (random.chance(0.3)) auditor.webhooks.heard(webhook, await send(stage, random, webhook.id, body));
};

function send({ client, world, replicas, webhookSecret }: Stage, random: Random, id: string, body: string) {
  const seconds = Math.floor(world.wall / 1000);
  const signature = createHmac('sha256', webhookSecret).update(`${id}.${seconds}.${body}`).digest('base64');
  const signed = {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': `v1,${signature}`,
  };
  const request: Request = { method: 'POST', path: '/v1/webhooks/crm/members', as: 'the org', body };
  return client.sendBy(signed, request, random.pick(replicas));
}
