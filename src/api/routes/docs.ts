import { Type } from 'typebox';
import { Problem } from '../../platform/base/problem.ts';
import { createReadablePage, type ReadablePage, remembered } from '../openapi/readable-page.ts';
import { unchanged } from '../pipeline/request-head.ts';
import { defineRoute, type Route } from '../route.ts';
import { answerWith, createStaticBody, prefersHtml } from '../static-body.ts';

const path = '/v1/docs';
const open = { none: 'documentation is public' } as const;

const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
  "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const sharedHeaders = {
  Vary: 'Request headers that the response depends on.',
  ETag: 'Strong entity tag, for If-None-Match.',
};

export function docsRoutes({ document }: { document: () => string }): Route[] {
  const page = createReadablePage(path, document);
  return [documentRoute(document, page), scalarRoute(page), startRoute(page)];
}

function documentRoute(document: () => string, page: ReadablePage): Route {
  const json = remembered(
    () => createStaticBody('application/json; charset=utf-8', Buffer.from(document())),
    document,
  );
  return defineRoute({
    method: 'GET',
    path,
    operationId: 'getDocumentation',
    tag: 'Operations',
    summary: 'This document',
    description: 'JSON; browsers, which accept `text/html`, get a readable page.',
    permission: open,
    conditional: 'If-None-Match',
    idempotencyKey: 'ignored',
    request: {},
    answers: {
      200: {
        description: 'The OpenAPI 3.1 document.',
        schema: Type.Object({}, { additionalProperties: true, examples: [{ openapi: '3.1.0' }] }),
        headers: sharedHeaders,
        otherMedia: ['text/html'],
      },
      304: unchanged(sharedHeaders),
    },
    problems: [],
    async handle({ headers }) {
      const shared = { 'cache-control': 'no-cache', vary: 'Accept' };
      if (!prefersHtml(headers.accept)) {
        return answerWith(await json(), headers, shared);
      }
      return answerWith(await page.html(), headers, {
        ...shared,
        'content-security-policy': contentSecurityPolicy,
      });
    },
  });
}

const scripts = {
  method: 'GET',
  tag: 'Operations',
  permission: open,
  isUnlisted: true,
  idempotencyKey: 'ignored',
  request: {},
  answers: { 200: { description: 'JavaScript.' } },
  problems: [],
} as const;

function scalarRoute(page: ReadablePage): Route {
  return defineRoute({
    ...scripts,
    path: `${path}/scalar.js`,
    operationId: 'getDocumentationScript',
    summary: "The readable page's library",
    handle: async ({ headers }) =>
      answerWith(await page.scalar(), headers, { 'cache-control': 'public, max-age=3600' }),
  });
}

function startRoute(page: ReadablePage): Route {
  return defineRoute({
    ...scripts,
    path: `${path}/start.js`,
    operationId: 'getDocumentationStart',
    summary: "The readable page's start script",
    handle: async ({ headers }) => answerWith(await page.start(), headers, { 'cache-control': 'no-cache' }),
  });
}

export function rootRoute(home: string): Route {
  return defineRoute({
    method: 'GET',
    tag: 'Operations',
    isUnlisted: true,
    idempotencyKey: 'ignored',
    path: '/',
    operationId: 'getRoot',
    summary: 'Where to begin',
    permission: { none: 'it only points to the documentation' },
    request: {},
    answers: { 303: { description: 'A page for people.' } },
    problems: ['not_found'],
    async handle({ headers: { accept } }) {
      if (!prefersHtml(accept))
        throw new Problem('not_found', "There's nothing at this path. The documentation is at /v1/docs.");
      return { status: 303, headers: { location: home, vary: 'Accept' } };
    },
  });
}
