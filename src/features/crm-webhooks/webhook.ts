/** Types of events about members. Events of any other type are stored and have no effect. */
export const memberEventTypes = ['member.created', 'member.updated', 'member.deleted'] as const;

export function isMemberEvent(type: string): boolean {
  return (memberEventTypes as readonly string[]).includes(type);
}

export interface ReceivedWebhook {
  /** As the sender named it; the same for all repeats. */
  webhookId: string;
  type: string;
  /** When it happened, by the sender's clock. */
  occurredAt: Date;
  /** External ID in lower case; null for types that are not about a member. */
  memberId: string | null;
  payload: string;
}

export type WebhookState = 'received' | 'processed' | 'ignored' | 'dead';
export const webhookStates: readonly WebhookState[] = ['received', 'processed', 'ignored', 'dead'];
