import type { FastifyReply, FastifyRequest } from 'fastify';
import { invalidCredentials, missing } from '../../identity/consumers/authentication.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Route } from '../route.ts';
import {
  type Authenticators,
  admitCaller,
  isPresent,
  presentedBy,
  recordAttempt,
  requireOwnPage,
  requireWithinLimit,
} from './authentication.ts';
import { bytesOf, decode } from './body.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    takesForm?: boolean;
    answerProblem?: Route['answerProblem'];
  }
}

/**
 * The step of a route that callers reach with a form, which holds their credentials or comes with them. They are checked,
 * recorded and limited as those in headers are.
 */
export function formSteps(route: Route, authenticators: Authenticators): Step[] {
  const { form } = route;
  if (form === undefined) return [];
  const { sessions, limits } = authenticators;
  return [
    async (request: FastifyRequest, reply: FastifyReply) => {
      // Of a request that cannot be read: it names nobody.
      recordAttempt(request, missing);
      if (presentedBy(request, sessions).session) requireOwnPage(request, reply, route, limits);
      const fields = readForm(decode(bytesOf(request)));
      const authentication = await form.authenticate(fields, request.headers);
      // Those of other routes do not admit it; they say what it counts by, as wherever none are needed.
      const isCountedOpenly = authentication.result === 'missing' && isPresent(presentedBy(request));
      if (isCountedOpenly) throw invalidCredentials(authentication.advice);
      admitCaller(request, reply, authentication, authenticators);
      requireWithinLimit(request);
      request.body = Object.fromEntries(fields);
    },
  ];
}

/** The fields of a form; empty ones count as left out (RFC 6749 section 3.2). Throws `Problem` where one is there twice. */
function readForm(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    if (fields.has(name)) {
      const message = 'is there more than once';
      // The name is the caller's: it may be long, or a secret that lacks its name.
      throw new Problem('invalid_request', `A parameter of the form ${message}.`, {
        errors: [{ parameter: name.slice(0, 40), message }],
      });
    }
    fields.set(name, value);
  }
  for (const [name, value] of fields) if (value === '') fields.delete(name);
  return fields;
}
