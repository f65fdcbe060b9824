import type { Page } from '@handoff-gateway/client';
import { Failure } from '../shared/api.ts';
import { parseDigits } from '../shared/json-text.ts';
import type { Note } from '../shared/kept.ts';
import type { ReadPage } from '../shared/load.ts';
import { includedIn } from '../shared/members.ts';
import { type Session, withQuery } from '../shared/session.ts';
import { isUuid } from '../shared/uuid.ts';

export type Collection = 'quotes' | 'bookings' | 'members';
export type Given = Record<string, string>;

/** What a text may stand for, as parameters of the list, the most exact first; `id` is that of one record. */
function meanings(collection: Collection, text: string): Given[] {
  if (text === '') return [{}];
  const isMember = collection === 'members';
  if (isUuid(text)) return [{ id: text }, ...(isMember ? [] : [{ trip_id: text }, { member_id: text }])];
  return [...(isMember || /\s/.test(text) ? [] : [{ status: text }]), { q: text }];
}

/**
 * Reads the pages of a list for a text in the search box: what it stands for is the first meaning that finds something.
 * `filters` are the parameters of the other fields; `chosen` is what the text was taken for.
 */
export function searchFor<Row>(
  collection: Collection,
  text: string,
  filters: Given,
  chosen: Note,
): ReadPage<Row> {
  return async (session, cursor) => {
    const include = collection === 'members' ? undefined : includedIn(session, collection);
    const list = async (given: Given) => {
      const query = { ...filters, ...given, include, cursor };
      // Digits of amounts count.
      return parseDigits((await session.send(withQuery(`/v1/${collection}`, query))).text) as Page<Row>;
    };
    if (cursor !== undefined) return list(chosen.current ?? {});
    let found: Page<Row> = nothing;
    let taken: Given = {};
    for (const meaning of meanings(collection, text)) {
      taken = meaning;
      const id = meaning['id'];
      found =
        id === undefined ? await list(meaning) : await one<Row>(session, `/v1/${collection}/${id}`, include);
      if (found.data.length > 0) break;
    }
    // Not before: until now the pages that are shown can be followed by more.
    chosen.current = taken;
    return found;
  };
}

const nothing = { data: [], next_cursor: null, has_more: false };

async function one<Row>(session: Session, path: string, include: 'member' | undefined): Promise<Page<Row>> {
  const data = await session.send(withQuery(path, { include })).then(
    ({ text }) => [parseDigits(text) as Row],
    (error: unknown) => {
      if (error instanceof Failure && error.problem.status === 404) return [];
      throw error;
    },
  );
  return { ...nothing, data };
}
