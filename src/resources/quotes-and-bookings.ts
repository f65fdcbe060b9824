import { json, lookup, type Resource, text, timestamp, uuid } from './resource.ts';

/** Quotes and bookings have the same fields; the CRM keeps them in two objects. */
const fields = {
  id: uuid('External_Id__c', { description: 'External ID of the record, made by the service.' }),
  trip_id: uuid('Trip_Id__c', {
    description: 'The trip it belongs to.',
    writable: true,
    required: true,
    filter: true,
  }),
  member_id: lookup('Member__r', {
    description: 'External ID of the member.',
    writable: true,
    required: true,
    filter: true,
  }),
  name: text('Name__c', { description: 'What was chosen, for people.', writable: true, required: true }),
  source: text('Source__c', {
    description: 'The supplier that it came from.',
    writable: true,
    required: true,
  }),
  details: json('Details__c', {
    description: 'The search result itself, whatever it holds.',
    writable: true,
    required: true,
    maxLength: 131_072,
  }),
  status: text('Status__c', { description: '`created` at first, then whatever the CRM says.', filter: true }),
  created_at: timestamp('CreatedDate', { description: 'When the CRM made the record.' }),
  updated_at: timestamp('LastModifiedDate', { description: 'When the CRM last changed the record.' }),
} satisfies Resource['fields'];

export const quote = {
  name: 'quote',
  collection: 'quotes' as const,
  crmObject: 'Quote__c',
  fields,
} satisfies Resource;
export const booking = {
  name: 'booking',
  collection: 'bookings' as const,
  crmObject: 'Booking__c',
  fields,
} satisfies Resource;
