import type { AcceptedHandoff } from '@handoff-gateway/client';
import { includedIn } from '../shared/members.ts';
import type { Session } from '../shared/session.ts';

/** States that somebody, or the CRM, can still change, the most urgent first. */
export const openStatuses = ['awaiting_approval', 'failed', 'accepted'] as const;
const mostOpen = 200;
const pageSize = 100;
/** Pages that are searched for hand-offs that are done: while many wait, the newest are not. */
const mostPages = 10;

export interface Handoffs {
  open: AcceptedHandoff[];
  /** There are more of them than are shown. */
  isCut: boolean;
  done: AcceptedHandoff[];
  hasMoreDone: boolean;
}

/** What is open, all of it where that is not too much, and as many as are wanted of what is done, newest first. */
export async function readHandoffs(session: Session, wantedDone: number): Promise<Handoffs> {
  const { client } = session;
  const include = includedIn(session, 'quotes', 'bookings');
  const [{ done, hasMore }, ...pages] = await Promise.all([
    readDone(client, wantedDone),
    ...openStatuses.map((status) => client.handoffs.list({ status, limit: mostOpen, include }).page()),
  ]);
  // What was done between two answers is done.
  const ids = new Set(done.map(({ external_id }) => external_id));
  return {
    open: pages.flatMap(({ data }) => data).filter(({ external_id }) => !ids.has(external_id)),
    isCut: pages.some(({ has_more }) => has_more),
    done: done.slice(0, wantedDone),
    hasMoreDone: hasMore || done.length > wantedDone,
  };
}

async function readDone(client: Session['client'], wanted: number) {
  const done: AcceptedHandoff[] = [];
  let cursor: string | undefined;
  let hasMore = true;
  for (let page = 0; page < mostPages && hasMore && done.length <= wanted; page++) {
    const found = await client.handoffs.list({ limit: pageSize, cursor }).page();
    done.push(...found.data.filter(isDone));
    cursor = found.next_cursor ?? undefined;
    hasMore = found.has_more;
  }
  return { done, hasMore };
}

function isDone({ status }: AcceptedHandoff): boolean {
  return !(openStatuses as readonly string[]).includes(status);
}
