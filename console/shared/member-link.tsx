import type { VNode } from 'preact';
import { memberName, type Named } from './members.ts';
import { Id } from './parts.tsx';
import { useSession } from './session.ts';

interface LinkProps {
  id: string | null | undefined;
  /** Undefined where it is not read. */
  member: Named | undefined;
}

/** A member by name, with the way to its page; by id where the name is not known. */
export function MemberLink({ id, member }: LinkProps): VNode {
  const { can } = useSession();
  if (!id || !can('members', 'read')) return <Id>{id}</Id>;
  return <a href={`#/records/members/${id}`}>{member === undefined ? <Id>{id}</Id> : memberName(member)}</a>;
}
