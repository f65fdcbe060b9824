import { type Resource, text, timestamp, uuid } from './resource.ts';

/** Members are the CRM's contacts; the service reads them and never writes them. */
export const member = {
  name: 'member',
  collection: 'members' as const,
  crmObject: 'Contact',
  fields: {
    id: uuid('External_Id__c', { description: 'External ID of the member.' }),
    first_name: text('FirstName', { description: 'Given name.' }),
    last_name: text('LastName', { description: 'Family name.' }),
    email: text('Email', { description: 'Address for mail.', filter: true }),
    phone: text('Phone', { description: 'Telephone number.' }),
    created_at: timestamp('CreatedDate', { description: 'When the CRM made the record.' }),
    updated_at: timestamp('LastModifiedDate', { description: 'When the CRM last changed the record.' }),
  },
} satisfies Resource;
