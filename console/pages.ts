import type { ComponentType } from 'preact';
import { AccessLogPage } from './access-log/access-log-page.tsx';
import { BreakItPage } from './break-it.tsx';
import { ConsumersPage } from './consumers/consumers-page.tsx';
import { EventsPage } from './events/events-page.tsx';
import { HandOffPage } from './hand-off/hand-off-page.tsx';
import { HealthPage } from './health/health-page.tsx';
import { MyAccessPage } from './my-access.tsx';
import { RecordsPage } from './records/records-page.tsx';
import { ReservationsPage } from './reservations.tsx';
import { pageFacts } from './shared/page-facts.ts';
import { canReadRecords, isTest, type Session } from './shared/session.ts';
import { isUuid } from './shared/uuid.ts';
import { TripPage } from './trips/trip-page.tsx';
import { HandoffPage } from './waiting/handoff-page.tsx';
import { WaitingPage } from './waiting/waiting-page.tsx';

export interface ConsolePage {
  /** First part of the address after `#/`. */
  path: string;
  title: string;
  isAllowed: (session: Session) => boolean;
  /** Whether these further parts of the address belong to the page; without it there may be none. */
  isValidRest?: (rest: string[]) => boolean;
  Page: ComponentType<{ route: string[] }>;
}

const canHandOff = ({ can }: Session) => can('quotes', 'write') || can('bookings', 'write');
const canReadWaiting = ({ can }: Session) => can('quotes', 'read') || can('bookings', 'read');
const canReadReservations = ({ can }: Session) => can('bookings', 'read');
const isIdOrNone = (id: string | undefined) => id === undefined || isUuid(id);
const canReadConsumers = ({ can }: Session) => can('consumers', 'read');

/** Every page, in the order of the navigation. */
const pages: ConsolePage[] = [
  { path: 'hand-off', title: 'Hand-off', isAllowed: canHandOff, Page: HandOffPage },
  { path: 'waiting', title: 'Waiting', isAllowed: canReadWaiting, Page: WaitingPage },
  {
    path: 'handoffs',
    title: 'Hand-off',
    isAllowed: canReadWaiting,
    isValidRest: ([id, ...more]) => isUuid(id ?? '') && more.length === 0,
    Page: HandoffPage,
  },
  {
    path: 'records',
    title: 'Records',
    isAllowed: canReadRecords,
    isValidRest: ([collection = 'quotes', id, ...more]) =>
      ['quotes', 'bookings', 'members'].includes(collection) && isIdOrNone(id) && more.length === 0,
    Page: RecordsPage,
  },
  {
    path: 'trips',
    title: 'Trip',
    isAllowed: canReadWaiting,
    isValidRest: ([id, ...more]) => isUuid(id ?? '') && more.length === 0,
    Page: TripPage,
  },
  {
    path: 'reservations',
    title: 'Reservations',
    isAllowed: canReadReservations,
    isValidRest: ([id, ...more]) => isIdOrNone(id) && more.length === 0,
    Page: ReservationsPage,
  },
  {
    path: 'events',
    title: 'Events',
    isAllowed: (session) => canReadRecords(session) || session.can('webhooks', 'read'),
    isValidRest: ([tab = 'endpoints', _id, ...more]) => tab === 'endpoints' && more.length === 0,
    Page: EventsPage,
  },
  {
    path: 'consumers',
    title: 'Consumers',
    isAllowed: canReadConsumers,
    isValidRest: (rest) => rest.length <= 1,
    Page: ConsumersPage,
  },
  {
    path: 'access-log',
    title: 'Access log',
    isAllowed: canReadConsumers,
    isValidRest: ([tab = 'changes', ...more]) => tab === 'changes' && more.length === 0,
    Page: AccessLogPage,
  },
  { path: 'health', title: 'Health', isAllowed: () => true, Page: HealthPage },
  {
    path: 'break-it',
    title: 'Break it',
    isAllowed: ({ can, consumer }) => pageFacts.can_break && can('consumers', 'write') && !isTest(consumer),
    Page: BreakItPage,
  },
  { path: 'my-access', title: 'My access', isAllowed: () => true, Page: MyAccessPage },
];

/** The page at an address, or why there is none. */
export type Found = { page: ConsolePage; rest: string[] } | 'unknown' | 'forbidden';

export function allowedPages(session: Session): ConsolePage[] {
  return pages.filter(({ isAllowed }) => isAllowed(session));
}

/** Where somebody begins: at the first of these that they may see. What waits is rarely what they come for. */
const beginnings = ['hand-off', 'records', 'my-access'];

/** `route`: parts of the address. */
export function findPage(allowed: readonly ConsolePage[], [name, ...rest]: string[]): Found {
  const wanted = name ?? allowed.find(({ path }) => beginnings.includes(path))?.path;
  const page = allowed.find(({ path }) => path === wanted);
  if (page === undefined) return pages.some(({ path }) => path === wanted) ? 'forbidden' : 'unknown';
  const { isValidRest = (parts: string[]) => parts.length === 0 } = page;
  return isValidRest(rest) ? { page, rest } : 'unknown';
}
