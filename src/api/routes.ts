import type { HealthReport } from '../observability/health.ts';
import { member } from '../resources/members.ts';
import { booking, quote } from '../resources/quotes-and-bookings.ts';
import type { Records } from '../resources/records.ts';
import { handoffRoute } from './handoff.ts';
import { openApiDocument } from './openapi/document.ts';
import type { CursorCodec } from './pipeline/cursor.ts';
import type { Route } from './route.ts';
import { docsRoutes } from './v1/docs.ts';
import { healthRoute } from './v1/health.ts';
import { changeRoute } from './v1/records/change.ts';
import { createRoute } from './v1/records/create.ts';
import { listRoute } from './v1/records/list.ts';
import { readRoute } from './v1/records/read.ts';
import { removeRoute } from './v1/records/remove.ts';
import { recordsContext } from './v1/records/shared.ts';

/** What the routes work with. */
export interface Services {
  records: Records;
  cursors: CursorCodec;
  health: () => Promise<HealthReport>;
  /** Version of the program, for the documentation. */
  version: string;
}

/** Every route of the service, in the order of the documentation. */
export function allRoutes({ records, cursors, health, version }: Services): Route[] {
  const members = recordsContext(member, records);
  const quotes = recordsContext(quote, records);
  const bookings = recordsContext(booking, records);
  let document: string | undefined;
  const routes: Route[] = [
    handoffRoute({ records }),
    listRoute(members, cursors),
    readRoute(members, 'externalId'),
    ...[quotes, bookings].flatMap((context) => [
      listRoute(context, cursors),
      createRoute(context),
      readRoute(context, 'id'),
      changeRoute(context),
      removeRoute(context),
    ]),
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
