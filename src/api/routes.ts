import type { Activity } from '../activity/activity.ts';
import type { Audit } from '../audit/audit.ts';
import type { EventFeed } from '../changes/event-feed.ts';
import type { Handoffs } from '../handoff/handoffs.ts';
import type { HealthReport } from '../observability/health.ts';
import type { Reservations } from '../reservations/reservations.ts';
import { member } from '../resources/members.ts';
import { booking, quote } from '../resources/quotes-and-bookings.ts';
import type { Records } from '../resources/records.ts';
import type { EndpointAdministration } from '../webhook-endpoints/administration.ts';
import { type ConsoleServices, consoleRoutes, rootRoute } from './console.ts';
import { handoffRoute } from './handoff.ts';
import { openApiDocument } from './openapi/document.ts';
import type { CursorCodec } from './pipeline/cursor.ts';
import type { Route } from './route.ts';
import { activityRoute } from './v1/activity.ts';
import { listAuditEventsRoute } from './v1/consumers/audit-events.ts';
import { listAuthAttemptsRoute } from './v1/consumers/auth-attempts.ts';
import { type ConsumersContext, consumerRoutes } from './v1/consumers/consumers.ts';
import { docsRoutes } from './v1/docs.ts';
import { listEventsRoute } from './v1/events.ts';
import { acceptedHandoffRoutes } from './v1/handoffs/handoffs.ts';
import { healthRoute } from './v1/health.ts';
import { type MemberWebhook, memberWebhookRoute } from './v1/member-webhook.ts';
import { problemRoute } from './v1/problems.ts';
import { recordsContext } from './v1/records/context.ts';
import { listRoute } from './v1/records/list.ts';
import { readRoute, recordRoutes } from './v1/records/records.ts';
import { reservationRoutes } from './v1/reservations/reservations.ts';
import { webhookEndpointRoutes } from './v1/webhook-endpoints/endpoints.ts';

/** What the routes work with. */
export interface Services extends ConsumersContext {
  records: Records;
  handoffs: Handoffs;
  /** The setting `handoff.repeatWindowSeconds`. */
  repeatWindowSeconds: number;
  /** Null where no dining partner is configured: then its paths do not exist. */
  reservations: Reservations | null;
  /** Reads one member, from the cache where that is allowed. */
  members: Pick<Records, 'find'>;
  webhooks: MemberWebhook;
  /** Null where the reader of changes is off: then its paths do not exist. */
  webhookEndpoints: EndpointAdministration | null;
  audit: Audit;
  activity: Activity;
  /** Null where the console is not enabled: then its paths do not exist. */
  console: ConsoleServices | null;
  /** Null where changes are not read: then its path does not exist. */
  events: EventFeed | null;
  cursors: CursorCodec;
  health: () => Promise<HealthReport>;
  /** Version of the program, for the documentation. */
  version: string;
}

/** Every route of the service, in the order of the documentation. */
export function allRoutes(services: Services): Route[] {
  const { repeatWindowSeconds, records, handoffs, reservations, audit, cursors, health, version } = services;
  const members = recordsContext(member, records);
  const quotes = recordsContext(quote, records);
  const bookings = recordsContext(booking, records, reservations);
  let document: string | undefined;
  const routes: Route[] = [
    handoffRoute({ records, handoffs, repeatWindowSeconds }),
    ...acceptedHandoffRoutes(handoffs, cursors),
    listRoute(members, cursors),
    readRoute({ ...members, records: services.members }, 'externalId'),
    ...recordRoutes(quotes, cursors),
    ...recordRoutes(bookings, cursors),
    ...(reservations === null ? [] : reservationRoutes(reservations, records, cursors)),
    ...(services.events === null ? [] : [listEventsRoute(services.events, cursors)]),
    ...(services.webhookEndpoints === null ? [] : webhookEndpointRoutes(services.webhookEndpoints, cursors)),
    memberWebhookRoute(services.webhooks),
    ...consumerRoutes(services, cursors),
    listAuthAttemptsRoute(audit, cursors),
    listAuditEventsRoute(audit, cursors),
    activityRoute(services.activity),
    healthRoute({ health }),
    problemRoute,
    rootRoute(Boolean(services.console)),
    ...(services.console ? consoleRoutes(services.console) : []),
    ...docsRoutes({
      document: () => {
        document ??= JSON.stringify(openApiDocument(routes, version));
        return document;
      },
    }),
  ];
  return routes;
}
