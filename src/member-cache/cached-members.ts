import type { Records } from '../resources/records.ts';
import type { MemberCache } from './member-cache.ts';

/** Reading of one member through the cache. Whoever writes, or decides by a member, asks the CRM itself. */
export function cachedMembers(records: Records, cache: MemberCache): Pick<Records, 'find'> {
  return {
    find: (resource, externalId, call) =>
      cache.find(externalId, () => records.find(resource, externalId, call)),
  };
}
