import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ConsolePage } from './pages.ts';
import { type Session, useSession } from './shared/session.ts';
import { countOf } from './shared/words.ts';
import { openStatuses } from './waiting/read-handoffs.ts';

/** Pages in no group are reached by links of others. */
const groups = [
  { name: 'Work', paths: ['hand-off', 'waiting', 'records', 'reservations'] },
  { name: 'Gateway', paths: ['events', 'consumers', 'access-log', 'health', 'break-it', 'my-access'] },
];

interface NavigationProps {
  allowed: readonly ConsolePage[];
  /** Path of the page that is shown. */
  current: string | undefined;
  /** Changes with everything that is done here. */
  doneAt: unknown;
}

/** The way to every page, with how much there is to look after. */
export function Navigation({ allowed, current, doneAt }: NavigationProps): VNode {
  const counts = useCounts(doneAt);
  const nav = useRef<HTMLElement>(null);
  // Counts that arrive later make the links before it wider.
  useLayoutEffect(() => showCurrent(nav.current), [current, counts['waiting'], counts['reservations']]);
  return (
    <nav aria-label="Pages" ref={nav}>
      {groups.map(({ name, paths }) => {
        const pages = allowed.filter(({ path }) => paths.includes(path));
        return (
          pages.length > 0 && (
            <div role="group" aria-label={name} key={name}>
              <span class="group" aria-hidden="true">
                {name}
              </span>
              {pages.map(({ path, title }) => (
                <NavigationLink
                  key={path}
                  path={path}
                  title={title}
                  isCurrent={path === current}
                  count={counts[path]}
                />
              ))}
            </div>
          )
        );
      })}
    </nav>
  );
}

/** Scrolls the navigation alone: in a row sideways, in a high column up or down. The page stays where it is. */
function showCurrent(nav: HTMLElement | null): void {
  const link = nav?.querySelector('[aria-current]');
  const header = nav?.parentElement;
  if (!nav || !link || !header) return;
  const at = link.getBoundingClientRect();
  const row = nav.getBoundingClientRect();
  const column = header.getBoundingClientRect();
  nav.scrollLeft += at.left + at.width / 2 - row.left - row.width / 2;
  if (at.bottom > column.bottom || at.top < column.top) header.scrollTop += at.top - column.top - at.height;
}

interface LinkProps {
  path: string;
  title: string;
  isCurrent: boolean;
  count: Count | undefined;
}

function NavigationLink({ path, title, isCurrent, count }: LinkProps): VNode {
  const number = count?.isMore ? `${count.number}+` : String(count?.number);
  return (
    <a
      href={`#/${path}`}
      aria-current={isCurrent ? 'page' : undefined}
      aria-description={count && countOf(count.number, count.unit)}
    >
      {title}
      {count && (
        <span class="count" aria-hidden="true">
          {number}
        </span>
      )}
    </a>
  );
}

interface Count {
  number: number;
  /** There are more than that. */
  isMore: boolean;
  unit: string;
}

const everyMs = 30_000;
const mostCounted = 100;

/** By path of the page; none where there is nothing to look after, or it cannot be read now. */
function useCounts(doneAt: unknown): Record<string, Count | undefined> {
  const session = useSession();
  const [counts, setCounts] = useState<Record<string, Count | undefined>>({});
  useEffect(() => {
    let isOver = false;
    const read = async () => {
      const [waiting, reservations] = await Promise.all([countWaiting(session), countReservations(session)]);
      if (!isOver) setCounts({ waiting, reservations });
    };
    const follow = () => {
      if (!document.hidden) void read();
    };
    follow();
    const timer = setInterval(follow, everyMs);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [session, doneAt]);
  return counts;
}

interface ListPage {
  data: readonly unknown[];
  has_more: boolean;
}

async function countWaiting({ client, can }: Session): Promise<Count | undefined> {
  if (!can('quotes', 'read') && !can('bookings', 'read')) return undefined;
  const lists = openStatuses.map((status) => client.handoffs.list({ status, limit: mostCounted }).page());
  return countIn(lists, 'hand-off');
}

async function countReservations({ client, can }: Session): Promise<Count | undefined> {
  if (!can('bookings', 'read')) return undefined;
  const list = client.reservations.list({ status: 'needs_attention', limit: mostCounted }).page();
  return countIn([list], 'reservation');
}

async function countIn(lists: Promise<ListPage>[], unit: string): Promise<Count | undefined> {
  const pages = await Promise.all(lists).catch(() => []);
  const number = pages.reduce((sum, { data }) => sum + data.length, 0);
  return number === 0 ? undefined : { number, isMore: pages.some(({ has_more }) => has_more), unit };
}
