import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import type { RequestOptions } from './gateway.ts';

export const webhookPath = '/v1/webhooks/crm/members';

export interface MemberEvent {
  type?: string;
  timestamp?: string;
  data?: object;
}

/** The first secret of an installation, as a sender is given it. */
export async function firstWebhookSecret({ dataDir }: { dataDir: string }): Promise<string> {
  return (await readFile(join(dataDir, 'secrets/webhooks/crm'), 'utf8')).split('\n')[0] as string;
}

export function memberEvent(memberId: string, change: MemberEvent = {}): Required<MemberEvent> {
  const now = new Date().toISOString();
  return { type: 'member.updated', timestamp: now, data: { external_id: memberId }, ...change };
}

export interface Signing {
  id?: string;
  at?: Date;
  headers?: Record<string, string>;
}

/** A request that is signed as the package `standardwebhooks`, which shares no code with the service, signs. */
export function signedRequest(
  secret: string,
  content: object | string,
  { id = `msg_${randomUUID()}`, at = new Date(), headers = {} }: Signing = {},
): RequestOptions & { body: string } {
  const body = typeof content === 'string' ? content : JSON.stringify(content);
  return {
    method: 'POST',
    as: null,
    body,
    headers: {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
      ...headers,
    },
  };
}
