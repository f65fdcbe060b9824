import type { Member } from '@handoff-gateway/client';
import { useReads } from './load.ts';
import { recall } from './memory.ts';
import { read, type Session, useSession } from './session.ts';
import { isUuid } from './uuid.ts';

export type Named = Pick<Member, 'first_name' | 'last_name'>;

/** `Okafor, Amara`, as in a list that is sorted by family name. */
export function sortedName({ first_name, last_name }: Named): string {
  return [last_name, first_name].filter(Boolean).join(', ') || 'Unnamed';
}

/** `Amara Okafor`. */
export function memberName({ first_name, last_name }: Named): string {
  return [first_name, last_name].filter(Boolean).join(' ') || 'Unnamed';
}

function knownTo({ memory }: Session): Map<string, Member> {
  return recall(memory, 'members', () => new Map<string, Member>());
}

/** Keeps members that were read for something else. */
export function remember(session: Session, members: readonly Member[]): void {
  const all = knownTo(session);
  for (const member of members) all.set(member.id, member);
}

/** `member`, for the parameter `include`, where the person may see the members of these records. */
export function includedIn(
  { can, consumer }: Session,
  ...collections: ('quotes' | 'bookings')[]
): 'member' | undefined {
  const isHidden = consumer.permissions.some(
    ({ resource, actions, fields }) =>
      collections.some((one) => one === resource) &&
      actions.includes('read') &&
      fields?.includes('member_id') === false,
  );
  return can('members', 'read') && !isHidden ? 'member' : undefined;
}

/** Members whose names did not come with a record, as far as they are known; the others are read. */
export function useMembers(ids: readonly string[]): (id: string | null | undefined) => Member | undefined {
  const session = useSession();
  const all = knownTo(session);
  const readOne = async (id: string) => remember(session, [await read<Member>(session, `/v1/members/${id}`)]);
  const missing = session.can('members', 'read') ? ids.filter((id) => isUuid(id) && !all.has(id)) : [];
  useReads(new Map(missing.map((id) => [id, () => readOne(id)])));
  return (id) => all.get(id ?? '');
}
