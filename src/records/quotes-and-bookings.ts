import { createdByFields } from './created-by.ts';
import { defineResource, json, lookup, type Resource, text, timestamp, uuid } from './resource.ts';

/** Quotes and bookings have the same fields; the CRM keeps them in two objects. Columns are those of the package. */
const fields = {
  id: uuid('External_Id__c', {
    description: 'External ID of the record, created by the gateway.',
    example: '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f',
  }),
  trip_id: uuid('Trip_Id__c', {
    description: 'The trip it belongs to: a UUID that its caller makes, once for each trip.',
    example: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
    writable: true,
    required: true,
    filter: true,
    indexed: true,
  }),
  member_id: lookup('Member__r', {
    description: 'External ID of the member.',
    example: '8673c1d4-1752-87ae-aa59-227b6cc68c14',
    writable: true,
    required: true,
    filter: true,
  }),
  name: text('Name__c', {
    description: 'Name of the chosen offer, for people.',
    example: 'Hotel Miramar, Málaga: double room with sea view, 3 nights',
    writable: true,
    required: true,
  }),
  source: text('Source__c', {
    description: 'The supplier that it came from.',
    example: 'hotelbeds',
    writable: true,
    required: true,
  }),
  details: json('Details__c', {
    description: 'The search result itself, whatever it holds.',
    example: { rate_key: '20270412|W|1|1073|DBT.SU', net: 612.4, currency: 'EUR', nights: 3 },
    writable: true,
    required: true,
    maxLength: 131_072,
    continuations: [2, 3, 4, 5, 6, 7, 8].map((part) => `Details_${part}__c`),
  }),
  status: text('Status__c', {
    description: '`created` at first, then whatever the CRM says.',
    example: 'created',
    filter: true,
  }),
  ...createdByFields,
  created_at: timestamp('CreatedDate', {
    description: 'When the CRM made the record.',
    example: '2027-03-02T16:05:12.000Z',
  }),
  updated_at: timestamp('LastModifiedDate', {
    description: 'When the CRM last changed the record.',
    example: '2027-03-02T16:05:12.000Z',
  }),
} satisfies Resource['fields'];

const search = [['name'], ['source']] as const;

export const handedOffFields = ['trip_id', 'member_id', 'name', 'source', 'details'] as const;

export const laterStatuses = ['pending', 'confirmed', 'cancelled'] as const;
export const writtenStatuses = { quote: ['created'], booking: ['created', ...laterStatuses] } as const;

export const quote = defineResource({
  name: 'quote' as const,
  collection: 'quotes' as const,
  crmObject: 'Quote__c',
  search,
  fields,
});
export const booking = defineResource({
  name: 'booking' as const,
  collection: 'bookings' as const,
  crmObject: 'Booking__c',
  search,
  fields,
});
