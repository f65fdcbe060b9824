import type { Member } from '@handoff-gateway/client';
import { useEffect, useState } from 'preact/hooks';
import { recall } from './memory.ts';
import { read, type Session, useSession } from './session.ts';
import { isUuid } from './uuid.ts';

export type Named = Pick<Member, 'first_name' | 'last_name'>;

/** `Okafor, Amara`, as in a list that is sorted by family name. */
export function sortedName({ first_name, last_name }: Named): string {
  return [last_name, first_name].filter(Boolean).join(', ') || 'Without a name';
}

/** `Amara Okafor`. */
export function memberName({ first_name, last_name }: Named): string {
  return [first_name, last_name].filter(Boolean).join(' ') || 'Without a name';
}

function knownTo({ memory }: Session): Map<string, Member> {
  return recall(memory, 'members', () => new Map<string, Member>());
}

/** Keeps members that were read for something else. */
export function remember(session: Session, members: readonly Member[]): void {
  const all = knownTo(session);
  for (const member of members) all.set(member.id, member);
}

/** A list may be of any number of members: of more than these the ids are shown. */
const mostReads = 20;

/** The members with these ids, as far as they are known or can be read with few requests. A member that cannot be read is left out. */
export function useMembers(ids: readonly (string | null | undefined)[]): ReadonlyMap<string, Member> {
  const session = useSession();
  const all = knownTo(session);
  const [, setReads] = useState(0);
  const wanted = [...new Set(ids)].filter((id): id is string => typeof id === 'string' && isUuid(id));
  const missing = session.can('members', 'read')
    ? wanted.filter((id) => !all.has(id)).slice(0, mostReads)
    : [];
  useEffect(() => {
    let isGone = false;
    const readMissing = async () => {
      await Promise.all(missing.map((id) => readMember(session, id)));
      // One change of the page, not one for each name.
      if (!isGone) setReads((count) => count + 1);
    };
    if (missing.length > 0) void readMissing();
    return () => {
      isGone = true;
    };
  }, [wanted.join()]);
  return all;
}

async function readMember(session: Session, id: string): Promise<void> {
  const member = await read<Member>(session, `/v1/members/${id}`).catch(() => undefined);
  if (member) remember(session, [member]);
}
