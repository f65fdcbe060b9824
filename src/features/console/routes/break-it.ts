import { Type } from 'typebox';
import { defineRoute, json, type Route, type RouteAnswer } from '../../../api/route.ts';
import type { Caller } from '../../../identity/consumers/scopes.ts';
import { modeOf } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { BreakIt } from '../break-it/break-it.ts';

const path = '/v1/admin/break-it';
const shared = {
  tag: 'Administration',
  // It cuts everybody off, as somebody who may change consumers can do anyway.
  permission: { resource: 'consumers', action: 'write' },
  isUnlisted: true,
  idempotencyKey: 'ignored',
  problems: ['not_found'],
} as const;
const answers = { 200: { description: 'What can be broken, and what is.' } };
const named = { params: Type.Object({ name: Type.String({ maxLength: 40, format: 'text' }) }) };

export function breakItRoutes(breakIt: BreakIt): Route[] {
  const answer = async (): Promise<RouteAnswer> => json(200, { data: await breakIt.list() });
  return [
    defineRoute({
      ...shared,
      method: 'GET',
      path,
      operationId: 'listBreakages',
      summary: 'What can be broken',
      request: {},
      answers,
      async handle({ consumer }) {
        requireLive(consumer);
        return answer();
      },
    }),
    defineRoute({
      ...shared,
      method: 'POST',
      path: `${path}/:name`,
      operationId: 'break',
      summary: 'Break something for five minutes',
      request: named,
      answers,
      async handle({ consumer, params: { name } }) {
        requireLive(consumer);
        await breakIt.break(name);
        return answer();
      },
    }),
    defineRoute({
      ...shared,
      method: 'DELETE',
      path,
      operationId: 'fixAll',
      summary: 'Fix everything',
      request: {},
      answers,
      async handle({ consumer }) {
        requireLive(consumer);
        await breakIt.fix();
        return answer();
      },
    }),
    defineRoute({
      ...shared,
      method: 'DELETE',
      path: `${path}/:name`,
      operationId: 'fix',
      summary: 'Fix one thing',
      request: named,
      answers,
      async handle({ consumer, params: { name } }) {
        requireLive(consumer);
        await breakIt.fix(name);
        return answer();
      },
    }),
  ];
}

/** Test consumers must reach nobody else. */
function requireLive(consumer: Caller | undefined): void {
  if (modeOf(consumer?.id) === 'test')
    throw new Problem('not_found', 'Test consumers have nothing to break.');
}
