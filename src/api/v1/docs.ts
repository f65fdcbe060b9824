import { Type } from 'typebox';
import { createReadablePage, type ReadablePage } from '../openapi/readable-page.ts';
import { defineRoute, type Route } from '../route.ts';

const path = '/v1/docs';
const open = { none: 'documentation is public' } as const;

/**
 * What the page may load: nothing from another host. Scalar starts from an inline script and makes its own styles.
 */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data:; " +
  "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The OpenAPI document: JSON for programs, a page of the same for browsers. `document` gives it as JSON text. */
export function docsRoutes({ document }: { document: () => string }): Route[] {
  const page = createReadablePage(path);
  return [documentRoute(document, page), scriptRoute(page)];
}

function documentRoute(document: () => string, page: ReadablePage): Route {
  return defineRoute({
    method: 'GET',
    path,
    operationId: 'getDocumentation',
    tag: 'Operations',
    summary: 'This document',
    description: 'As JSON; a browser, which accepts `text/html`, gets a readable page of the same.',
    permission: open,
    idempotencyKey: 'ignored',
    request: {},
    answers: {
      200: {
        description: 'The OpenAPI 3.1 document.',
        schema: Type.Object({}, { additionalProperties: true, examples: [{ openapi: '3.1.0' }] }),
        headers: { Vary: 'Accept' },
        otherMedia: ['text/html'],
      },
    },
    problems: [],
    async handle({ headers }) {
      const shared = { 'cache-control': 'no-cache', vary: 'Accept' };
      if (!prefersHtml(headers.accept)) {
        return {
          status: 200,
          body: document(),
          headers: { ...shared, 'content-type': 'application/json; charset=utf-8' },
        };
      }
      return {
        status: 200,
        body: await page.html(),
        headers: {
          ...shared,
          'content-type': 'text/html; charset=utf-8',
          'content-security-policy': contentSecurityPolicy,
        },
      };
    },
  });
}

function scriptRoute(page: ReadablePage): Route {
  return defineRoute({
    method: 'GET',
    path: `${path}/scalar.js`,
    operationId: 'getDocumentationScript',
    tag: 'Operations',
    summary: 'The script of the readable page',
    permission: open,
    idempotencyKey: 'ignored',
    request: {},
    answers: { 200: { description: 'JavaScript.', otherMedia: ['text/javascript'] } },
    problems: [],
    handle: async () => ({
      status: 200,
      body: await page.script(),
      headers: { 'content-type': 'text/javascript; charset=utf-8', 'cache-control': 'public, max-age=3600' },
    }),
  });
}

/** Browsers name `text/html` first; programs say JSON or anything. */
function prefersHtml(accept: string | undefined): boolean {
  const html = accept?.indexOf('text/html') ?? -1;
  const json = accept?.indexOf('application/json') ?? -1;
  return html >= 0 && (json < 0 || html < json);
}
