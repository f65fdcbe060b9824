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

/** The member, once it is known; undefined too where it can't be read. */
export function useMember(id: string | null | undefined): Member | undefined {
  const session = useSession();
  const all = knownTo(session);
  const isMissing = session.can('members', 'read') && typeof id === 'string' && isUuid(id) && !all.has(id);
  useReads(new Map(isMissing ? [[id, () => readMember(session, id)]] : []));
  return all.get(id ?? '');
}

/** The members with these ids, as far as they are known; the others are read. */
export function useMembers(ids: readonly string[]): (id: string | null | undefined) => Member | undefined {
  const session = useSession();
  const all = knownTo(session);
  const unread = recall(session.memory, 'unread-members', () => new Set<string>());
  const isMissing = (id: string) => isUuid(id) && !all.has(id) && !unread.has(id);
  const readOne = async (id: string) => {
    await readMember(session, id);
    if (!all.has(id)) unread.add(id);
  };
  const missing = session.can('members', 'read') ? ids.filter(isMissing) : [];
  useReads(new Map(missing.map((id) => [id, () => readOne(id)])));
  return (id) => all.get(id ?? '');
}

async function readMember(session: Session, id: string): Promise<void> {
  const member = await read<Member>(session, `/v1/members/${id}`).catch(() => undefined);
  if (member) remember(session, [member]);
}
