import type { Call } from '../platform/base/call.ts';
import { startOf } from '../platform/base/text.ts';
import type { FieldValues } from './records.ts';
import { boolean, type Resource, text } from './resource.ts';

const name = 'created_by';
const description = 'Who made it through the API; null where it was made in another way.';
const part = { optional: name, within: { name, description } };

/** Characters that the CRM's fields hold, in UTF-16 code units. */
const maxLength = 255;

export const ownerField = 'consumer_id';

export const createdByFields = {
  consumer_id: text('Consumer_Id__c', {
    description: 'Id of the consumer that made the record.',
    example: 'con_o2tBsovC6m7gYpQd',
    filter: true,
    indexed: true,
    maxLength: 64,
    ...part,
  }),
  consumer_name: text('Consumer_Name__c', {
    description: 'Name of that consumer when it made the record.',
    example: 'Partner A',
    ...part,
  }),
  actor: text('Actor__c', {
    description:
      'The person who acted at the consumer: who had signed in, or whom X-Actor named; null for nobody.',
    example: 'marta.ruiz@example.com',
    ...part,
  }),
  verified: boolean('Actor_Verified__c', {
    description: 'True: the person had signed in. Null where the org has no field for it.',
    example: false,
    ...part,
    // The field is of a newer package than the others.
    optional: 'verified',
    isSpare: true,
  }),
};

export type Creator = Pick<Call, 'consumerId' | 'consumerName' | 'actor' | 'subject'>;

export function creatorValues({ consumerId, consumerName, actor, subject }: Creator): FieldValues {
  if (consumerId === undefined) return {};
  return {
    verified: String(subject !== undefined),
    consumer_id: consumerId,
    ...(consumerName !== undefined && { consumer_name: startOf(consumerName, maxLength) }),
    ...(actor !== undefined && { actor: startOf(actor, maxLength) }),
  };
}

export function creatorOf({ fields }: Pick<Resource, 'fields'>, creator: Creator): FieldValues {
  return fields[ownerField] === undefined ? {} : creatorValues(creator);
}

export function viewOfCreator(creator: Creator & { consumerId: string }) {
  const { consumerId, consumerName = null, actor = null, subject } = creator;
  return { consumer_id: consumerId, consumer_name: consumerName, actor, verified: subject !== undefined };
}
