export const memberEventTypes = ['member.created', 'member.updated', 'member.deleted'] as const;

export function isMemberEvent(type: string): boolean {
  return (memberEventTypes as readonly string[]).includes(type);
}

export interface ReceivedWebhook {
  webhookId: string;
  type: string;
  occurredAt: Date;
  /** External ID in lower case; null for types that are not about a member. */
  memberId: string | null;
  payload: string;
}

export type WebhookState = 'received' | 'processed' | 'ignored' | 'dead';
export const webhookStates: readonly WebhookState[] = ['received', 'processed', 'ignored', 'dead'];
