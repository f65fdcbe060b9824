import type { Quote } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useSession } from '../shared/session.ts';

/** Of a record. */
export type Maker = NonNullable<Quote['created_by']>;

/** The name of a consumer: its own is known also where the CRM keeps no names. */
export function useConsumerName(): (maker: Maker) => string {
  const { consumer } = useSession();
  return ({ consumer_id, consumer_name }) =>
    consumer_name ?? (consumer_id === consumer.id ? consumer.name : consumer_id);
}

/** Who made a record: the person, where the consumer said who it was, and the consumer. */
export function MakerName({ maker }: { maker: Maker | null | undefined }): VNode {
  const nameOf = useConsumerName();
  if (!maker) return <span class="quiet">–</span>;
  const consumer = nameOf(maker);
  if (maker.actor === null) return <bdi>{consumer}</bdi>;
  return (
    <>
      <bdi>{maker.actor}</bdi> (<bdi>{consumer}</bdi>)
    </>
  );
}
