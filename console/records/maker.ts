import type { Quote } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { html } from '../shared/html.ts';
import { useSession } from '../shared/session.ts';

type Doer = NonNullable<Quote['created_by']>;

/** The name of a consumer: its own is known also where the CRM keeps no names. */
export function useConsumerName(): (doer: Doer) => string {
  const { consumer } = useSession();
  return ({ consumer_id, consumer_name }) =>
    consumer_name ?? (consumer_id === consumer.id ? consumer.name : consumer_id);
}

/** Who made a record: the person, where the consumer said who it was, and the consumer. */
export function MakerName({ maker }: { maker: Quote['created_by'] | undefined }): VNode {
  const nameOf = useConsumerName();
  if (!maker) return html`<span class="quiet">–</span>`;
  const consumer = nameOf(maker);
  if (maker.actor === null) return html`<bdi>${consumer}</bdi>`;
  return html`<bdi>${maker.actor}</bdi> (<bdi>${consumer}</bdi>)`;
}
