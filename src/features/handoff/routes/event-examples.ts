import { problems } from '../../../platform/base/problems.ts';

const { title, status } = problems.member_not_found;

export const handoffEventExamples = {
  'handoff.awaiting_approval': {
    status: 'awaiting_approval',
    attempts: 0,
    completed_at: null,
    approval: { status: 'pending', decided_by: null, decided_at: null, reason: null },
  },
  'handoff.rejected': {
    status: 'rejected',
    attempts: 0,
    approval: {
      status: 'rejected',
      decided_by: {
        consumer_id: 'con_o2tBsovC6m7gYpQd',
        consumer_name: 'Trip desk',
        actor: 'ana@example.com',
        verified: false,
      },
      decided_at: '2027-03-02T16:05:13.020Z',
      reason: 'The guest wants two beds.',
    },
  },
  'handoff.created': { status: 'created' },
  'handoff.failed': {
    status: 'failed',
    problem: {
      type: '/v1/problems/member_not_found',
      title,
      status,
      detail: 'The CRM has no member 8673c1d4-1752-87ae-aa59-227b6cc68c14.',
      code: 'member_not_found',
      request_id: '933bfcba-80b2-48dd-b31b-e58b7b06d3e3',
    },
  },
};
