import type { ComponentType } from 'preact';
import { AttemptsPage } from './attempts.ts';
import { ConsumersPage } from './consumers/consumers-page.ts';
import { EventsPage } from './events/events-page.ts';
import { HandOffPage } from './hand-off/hand-off-page.ts';
import { HealthPage } from './health/health-page.ts';
import { RecordsPage } from './records/records-page.ts';
import { ReservationsPage } from './reservations.ts';
import type { Session } from './shared/session.ts';
import { WaitingPage } from './waiting.ts';

interface ConsolePage {
  /** First part of the address after `#/`. */
  path: string;
  title: string;
  isAllowed: (session: Session) => boolean;
  Page: ComponentType<{ route: string[] }>;
}

const canHandOff = ({ can }: Session) => can('quotes', 'write') || can('bookings', 'write');
const canReadWaiting = ({ can }: Session) => can('quotes', 'read') || can('bookings', 'read');
const canReadReservations = ({ can }: Session) => can('bookings', 'read');
const canReadRecords = ({ can }: Session) =>
  can('quotes', 'read') || can('bookings', 'read') || can('members', 'read');
const canReadConsumers = ({ can }: Session) => can('consumers', 'read');

/** Every page, in the order of the navigation. */
export const pages: ConsolePage[] = [
  { path: 'hand-off', title: 'Hand-off', isAllowed: canHandOff, Page: HandOffPage },
  { path: 'waiting', title: 'Waiting', isAllowed: canReadWaiting, Page: WaitingPage },
  { path: 'records', title: 'Records', isAllowed: canReadRecords, Page: RecordsPage },
  {
    path: 'reservations',
    title: 'Reservations',
    isAllowed: canReadReservations,
    Page: ReservationsPage,
  },
  { path: 'events', title: 'Events', isAllowed: canReadRecords, Page: EventsPage },
  { path: 'consumers', title: 'Consumers', isAllowed: canReadConsumers, Page: ConsumersPage },
  { path: 'attempts', title: 'Attempts', isAllowed: canReadConsumers, Page: AttemptsPage },
  { path: 'health', title: 'Health', isAllowed: () => true, Page: HealthPage },
];
