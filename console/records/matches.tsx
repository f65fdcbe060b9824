import type { Member } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLoad } from '../shared/load.ts';
import { memberName } from '../shared/members.ts';
import { countOf } from '../shared/words.ts';
import { type Collection, searchFor } from './search.ts';

interface Match {
  rows: { id: string }[];
  hasMore: boolean;
}

/** By list; none while it is not known, and where nothing is searched for. */
export type Matches = Partial<Record<Collection, Match>>;

const mostShown = 10;

/** Leaves out a list that can't be read now. */
export function useMatches(search: string, collections: readonly Collection[]): Matches {
  const { data } = useLoad(`matches ${collections.join()} ${search}`, async (session) => {
    if (search === '') return {};
    const found = collections.map(async (collection): Promise<Matches> => {
      const chosen = { current: undefined };
      const read = searchFor<{ id: string }>(collection, search, { limit: String(mostShown) }, chosen);
      const page = await read(session, undefined).catch(() => undefined);
      return page ? { [collection]: { rows: page.data, hasMore: page.has_more } } : {};
    });
    return Object.assign({}, ...(await Promise.all(found))) as Matches;
  });
  return data ?? {};
}

/** `3`, `10+`. */
export function countOfMatches({ rows, hasMore }: Match): string {
  return `${rows.length}${hasMore ? '+' : ''}`;
}

export function addressOf(collection: Collection, search: string): string {
  return `#/records/${collection}${search === '' ? '' : `?${new URLSearchParams({ search })}`}`;
}

interface MatchLinksProps {
  /** Where nothing was found. */
  collection: Collection;
  search: string;
  matches: Matches;
}

/** The way to what the other lists have: to a few members by name, with what is theirs of the list that is shown. */
export function MatchLinks({ collection, search, matches }: MatchLinksProps): VNode {
  const { members, ...records } = matches;
  const fewMembers = members && members.rows.length <= 3 && !members.hasMore ? members.rows : [];
  const others = Object.entries(fewMembers.length > 0 ? records : matches) as [Collection, Match][];
  return (
    <>
      {(fewMembers as Member[]).map((member) => (
        <p key={member.id}>
          <a href={`#/records/members/${member.id}`}>{memberName(member)}</a> is a member.{' '}
          <a href={`#/records/${collection}?member_id=${member.id}`}>Show their {collection}</a>
        </p>
      ))}
      {others.map(
        ([one, match]) =>
          match.rows.length > 0 && (
            <p key={one}>
              <a href={addressOf(one, search)}>
                {match.hasMore
                  ? `${match.rows.length}+ ${one}`
                  : countOf(match.rows.length, one.slice(0, -1))}{' '}
                match
              </a>
            </p>
          ),
      )}
    </>
  );
}
