import { Problem } from '../../platform/base/problem.ts';
import { defineRoute, type Route } from '../route.ts';
import { prefersHtml } from '../static-body.ts';

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
        throw new Problem('not_found', 'There is nothing at this path. The documentation is at /v1/docs.');
      return { status: 303, headers: { location: home, vary: 'Accept' } };
    },
  });
}
