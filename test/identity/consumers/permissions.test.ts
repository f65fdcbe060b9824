import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Consumer,
  type PermissionAction,
  permissionActions,
} from '../../../src/identity/consumers/consumer.ts';
import { requireNoApproval } from '../../../src/identity/consumers/permissions.ts';

const actionSets: PermissionAction[][] = [
  ['read'],
  ['write'],
  ['delete'],
  ['read', 'delete'],
  ['write', 'delete'],
  ['read', 'write', 'delete'],
];

describe('a permission that needs approval', () => {
  // One that may do neither is refused for that, later.
  for (const actions of actionSets)
    for (const approval of [true, false])
      test(`of ${actions.join(', ')}${approval ? '' : ', where it needs none'}`, () => {
        const consumer = { permissions: [{ resource: 'quotes', actions, approval }] } as unknown as Consumer;
        for (const action of permissionActions) {
          const mayTry = actions.includes(action) || actions.includes('write');
          const isRefused = approval && action !== 'read' && mayTry;
          const act = () => requireNoApproval(consumer, { resource: 'quotes', action });
          if (isRefused) assert.throws(act, { code: 'approval_required' }, action);
          else act();
          requireNoApproval(consumer, { resource: 'bookings', action });
        }
      });
});
