import type { Activity } from '../features/console/activity/activity.ts';
import { activityRoute } from '../features/console/routes/activity.ts';
import { type ConsoleServices, consoleRoutes, rootRoute } from '../features/console/routes/console.ts';
import { listAuditEventsRoute } from '../features/consumer-admin/routes/audit-events.ts';
import { listAuthAttemptsRoute } from '../features/consumer-admin/routes/auth-attempts.ts';
import { type ConsumersContext, consumerRoutes } from '../features/consumer-admin/routes/consumers.ts';
import { type MemberWebhook, memberWebhookRoute } from '../features/crm-webhooks/routes/member-webhook.ts';
import type { EventFeed } from '../features/events/event-feed.ts';
import { listEventsRoute } from '../features/events/routes/events.ts';
import type { Handoffs } from '../features/handoff/handoffs.ts';
import { acceptedHandoffRoutes } from '../features/handoff/routes/accepted-handoffs.ts';
import { handoffRoute } from '../features/handoff/routes/handoff.ts';
import type { EndpointAdministration } from '../features/partner-webhooks/administration.ts';
import { webhookEndpointRoutes } from '../features/partner-webhooks/routes/endpoints.ts';
import { recordsContext } from '../features/records/routes/context.ts';
import { listRoute } from '../features/records/routes/list.ts';
import { readRoute, recordRoutes } from '../features/records/routes/records.ts';
import type { Reservations } from '../features/reservations/reservations.ts';
import { reservationRoutes } from '../features/reservations/routes/reservations.ts';
import type { Audit } from '../identity/audit/audit.ts';
import type { HealthReport } from '../platform/observability/health.ts';
import { member } from '../records/members.ts';
import { booking, quote } from '../records/quotes-and-bookings.ts';
import type { Records } from '../records/records.ts';
import { openApiDocument } from './openapi/document.ts';
import type { CursorCodec } from './pipeline/cursor.ts';
import type { Route } from './route.ts';
import { docsRoutes } from './routes/docs.ts';
import { healthRoute } from './routes/health.ts';
import { problemRoute } from './routes/problems.ts';

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
