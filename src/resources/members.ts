import { type Resource, text, timestamp, uuid } from './resource.ts';

/** Members are the CRM's contacts; the service reads them and never writes them. */
export const member = {
  name: 'member',
  collection: 'members' as const,
  crmObject: 'Contact',
  fields: {
    id: uuid('External_Id__c', {
      description: 'External ID of the member.',
      example: '3b241101-e2bb-4255-8caf-4136c566a962',
    }),
    first_name: text('FirstName', { description: 'Given name.', example: 'Inés' }),
    last_name: text('LastName', { description: 'Family name.', example: 'Marín' }),
    email: text('Email', {
      description: 'Address for mail.',
      example: 'ines.marin@example.com',
      filter: true,
    }),
    phone: text('Phone', { description: 'Telephone number.', example: '+34 952 555 010' }),
    created_at: timestamp('CreatedDate', {
      description: 'When the CRM made the record.',
      example: '2027-01-18T09:30:00.000Z',
    }),
    updated_at: timestamp('LastModifiedDate', {
      description: 'When the CRM last changed the record.',
      example: '2027-03-02T16:05:12.000Z',
    }),
  },
} satisfies Resource;
