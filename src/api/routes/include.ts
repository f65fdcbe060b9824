import { Type } from 'typebox';
import { requireFields, requireOneOf } from '../../identity/consumers/permissions.ts';
import type { Caller } from '../../identity/consumers/scopes.ts';

const description = 'Adds the member to each record: id, names and e-mail address. Needs members:read.';

export const includeParameter = {
  include: Type.Optional(Type.Enum(['member'], { description, examples: ['member'] })),
};

/** Throws `permission_denied` for a caller that may not see the members of these records. */
export function requireMembers(consumer: Caller | undefined, collections: readonly string[]): void {
  requireOneOf(consumer as Caller, [{ resource: 'members', action: 'read' }]);
  for (const collection of collections)
    requireFields(consumer as Caller, { resource: collection, action: 'read' } as never, () => ['member_id']);
}
