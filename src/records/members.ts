import { Problem, type ProblemFacts } from '../platform/base/problem.ts';
import { defineResource, text, timestamp, uuid } from './resource.ts';

/** Members are the CRM's contacts, where no mapping names another object; the service reads them and never writes them. */
export const member = defineResource({
  name: 'member' as const,
  collection: 'members' as const,
  crmObject: 'Contact',
  search: [['first_name', 'last_name'], ['email'], ['phone']],
  fields: {
    id: uuid('External_Id__c', {
      description: 'External ID of the member.',
      example: '8673c1d4-1752-87ae-aa59-227b6cc68c14',
    }),
    first_name: text('FirstName', { description: 'Given name.', example: 'Amara' }),
    last_name: text('LastName', { description: 'Family name.', example: 'Okafor' }),
    email: text('Email', {
      description: 'E-mail address.',
      example: 'amara.okafor.1@example.com',
      filter: true,
    }),
    phone: text('Phone', { description: 'Telephone number.', example: '+1 202 555 0100' }),
    created_at: timestamp('CreatedDate', {
      description: 'When the CRM made the record.',
      example: '2027-01-18T09:30:00.000Z',
    }),
    updated_at: timestamp('LastModifiedDate', {
      description: 'When the CRM last changed the record.',
      example: '2027-03-02T16:05:12.000Z',
    }),
  },
});

export function unknownMember(field: string, facts: ProblemFacts = {}): Problem {
  const errors = [{ pointer: `#/${field}`, message: "isn't the id of a member" }];
  return new Problem('member_not_found', 'The CRM has no member with this id.', { ...facts, errors });
}
