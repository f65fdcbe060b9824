import type { HealthReport } from '../observability/health.ts';
import type { Records } from '../resources/records.ts';
import { handoffRoute } from './handoff.ts';
import { openApiDocument } from './openapi/document.ts';
import type { Route } from './route.ts';
import { docsRoutes } from './v1/docs.ts';
import { healthRoute } from './v1/health.ts';

/** What the routes work with. */
export interface Services {
  records: Records;
  health: () => Promise<HealthReport>;
  /** Version of the program, for the documentation. */
  version: string;
}

/** Every route of the service, in the order of the documentation. */
export function allRoutes({ records, health, version }: Services): Route[] {
  let document: string | undefined;
  const routes: Route[] = [
    handoffRoute({ records }),
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
