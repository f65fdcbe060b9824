import { openApiDocument } from '../api/openapi/document.ts';
import { platformTags, type Route } from '../api/route.ts';
import { docsRoutes, rootRoute } from '../api/routes/docs.ts';
import { healthRoute } from '../api/routes/health.ts';
import { type CursorCodec, createCursorCodec } from '../api/routes/page.ts';
import { problemRoute } from '../api/routes/problems.ts';
import type { Feature } from '../feature.ts';
import { features } from '../features.ts';
import { version as programVersion } from '../platform/base/version.ts';
import type { HealthReport } from '../platform/observability/health.ts';

interface Services {
  /** By the name of the feature; null where the settings turn its routes off. */
  parts: ReadonlyMap<string, unknown>;
  cursors: CursorCodec;
  health: () => Promise<HealthReport>;
  home: string;
  schemaVersion: () => number;
}

export function allRoutes({ parts, cursors, health, home, schemaVersion }: Services): Route[] {
  let document = '';
  let version: number | undefined;
  const routes: Route[] = [
    ...features.flatMap(({ name, routes: ofFeature }) => {
      const own = parts.get(name);
      return own === null || own === undefined
        ? []
        : (ofFeature?.(own, cursors, () => routes, documentedRoutes) ?? []);
    }),
    healthRoute({ health, entries: merged(({ health: entries }) => entries) }),
    problemRoute,
    rootRoute(home),
    ...docsRoutes({
      document: () => {
        if (version !== schemaVersion()) {
          version = schemaVersion();
          document = JSON.stringify(describeRoutes(routes));
        }
        return document;
      },
    }),
  ];
  return routes;
}

export function documentedRoutes(...without: string[]): Route[] {
  const names = features.map(({ name }) => name).filter((name) => !without.includes(name));
  return uncalledRoutes(new Map(names.map((name) => [name, {}])));
}

export function uncalledRoutes(parts: Services['parts']): Route[] {
  return allRoutes({
    parts,
    cursors: createCursorCodec(notCalled),
    health: notCalled,
    home: '/v1/docs',
    schemaVersion: notCalled,
  });
}

function notCalled(): never {
  throw new Error('this route is described only');
}

export function describeRoutes(routes: readonly Route[]): object {
  return openApiDocument(routes, {
    tags: { ...merged(({ tags }) => tags), ...platformTags },
    webhooks: merged(({ webhooks }) => webhooks?.(routes)),
    version: programVersion,
  });
}

function merged<T>(bring: (feature: Feature) => Readonly<Record<string, T>> | undefined): Record<string, T> {
  return Object.assign({}, ...features.map(bring)) as Record<string, T>;
}
