import type { Audit } from '../consumers/audit.ts';
import type { HealthReport } from '../observability/health.ts';
import type { Reservations } from '../reservations/reservations.ts';
import { member } from '../resources/members.ts';
import { booking, quote } from '../resources/quotes-and-bookings.ts';
import type { Records } from '../resources/records.ts';
import { handoffRoute } from './handoff.ts';
import { openApiDocument } from './openapi/document.ts';
import type { CursorCodec } from './pipeline/cursor.ts';
import type { Route } from './route.ts';
import { listAuthAttemptsRoute } from './v1/consumers/auth-attempts.ts';
import { changeConsumerRoute } from './v1/consumers/change.ts';
import { createConsumerRoute } from './v1/consumers/create.ts';
import { listConsumersRoute } from './v1/consumers/list.ts';
import { readConsumerRoute } from './v1/consumers/read.ts';
import { removeConsumerRoute } from './v1/consumers/remove.ts';
import { rotateConsumerRoute } from './v1/consumers/rotate.ts';
import type { ConsumersContext } from './v1/consumers/shared.ts';
import { docsRoutes } from './v1/docs.ts';
import { healthRoute } from './v1/health.ts';
import { changeRoute } from './v1/records/change.ts';
import { createRoute } from './v1/records/create.ts';
import { listRoute } from './v1/records/list.ts';
import { readRoute } from './v1/records/read.ts';
import { removeRoute } from './v1/records/remove.ts';
import { recordsContext } from './v1/records/shared.ts';
import { cancelReservationRoute } from './v1/reservations/cancel.ts';
import { createReservationRoute } from './v1/reservations/create.ts';
import { readReservationRoute } from './v1/reservations/read.ts';
import { type CrmMembersWebhook, crmMembersWebhookRoute } from './v1/webhooks/crm-members.ts';

/** What the routes work with. */
export interface Services extends ConsumersContext {
  records: Records;
  /** Null where no dining partner is configured: then its paths do not exist. */
  reservations: Reservations | null;
  /** Reads one member, from the cache where it may. */
  members: Pick<Records, 'find'>;
  webhooks: CrmMembersWebhook;
  audit: Audit;
  cursors: CursorCodec;
  health: () => Promise<HealthReport>;
  /** Version of the program, for the documentation. */
  version: string;
}

/** Every route of the service, in the order of the documentation. */
export function allRoutes(services: Services): Route[] {
  const { records, reservations, audit, cursors, health, version } = services;
  const members = recordsContext(member, records);
  const quotes = recordsContext(quote, records);
  const bookings = recordsContext(booking, records, reservations);
  let document: string | undefined;
  const routes: Route[] = [
    handoffRoute({ records }),
    listRoute(members, cursors),
    readRoute({ ...members, records: services.members }, 'externalId'),
    ...[quotes, bookings].flatMap((context) => [
      listRoute(context, cursors),
      createRoute(context),
      readRoute(context, 'id'),
      changeRoute(context),
      removeRoute(context),
    ]),
    ...(reservations === null
      ? []
      : [
          createReservationRoute({ reservations, records }),
          readReservationRoute({ reservations }),
          cancelReservationRoute({ reservations }),
        ]),
    crmMembersWebhookRoute(services.webhooks),
    listConsumersRoute(services, cursors),
    createConsumerRoute(services),
    readConsumerRoute(services),
    changeConsumerRoute(services),
    removeConsumerRoute(services),
    rotateConsumerRoute(services),
    listAuthAttemptsRoute(audit, cursors),
    healthRoute({ health }),
    ...docsRoutes({
      document: () => {
        document ??= JSON.stringify(openApiDocument(routes, version));
        return document;
      },
    }),
  ];
  return routes;
}
