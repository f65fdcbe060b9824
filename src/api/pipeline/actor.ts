import { Problem } from '../../platform/base/problem.ts';
import { isVisible, visibleRule } from '../../platform/base/text.ts';
import { isPublic, type Route } from '../route.ts';
import type { Step } from './step.ts';

declare module 'fastify' {
  interface FastifyRequest {
    actor: string | undefined;
  }
}

/** Characters at most, as the CRM's field has them. */
const maxLength = 255;

export function readActor({ method, permission }: Route): Step {
  const isWrite = method !== 'GET' && !isPublic(permission);
  return (request) => {
    if (!isWrite) return;
    const { person } = request.consumer ?? {};
    if (person !== undefined) {
      request.actor = person.actor;
      return;
    }
    if (request.headers['x-actor'] === undefined) return;
    const [value = '', ...more] = request.raw.headersDistinct['x-actor'] ?? [];
    if (more.length > 0) throw invalid('must be sent once');
    request.actor = parseActor(value);
  };
}

/** The value of X-Actor: UTF-8, percent-encoded where it is not ASCII. Throws `invalid_request`. */
export function parseActor(header: string): string {
  if (/[^\x20-\x7e]/.test(header)) throw invalid('must be percent-encoded as UTF-8 where it is not ASCII');
  const actor = decode(header);
  if (!/\S/.test(actor)) throw invalid('must not be empty');
  if ([...actor].length > maxLength) throw invalid(`must have at most ${maxLength} characters`);
  if (!isVisible(actor)) throw invalid(visibleRule);
  return actor;
}

function decode(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    throw invalid('has a percent sign without the two digits of UTF-8 after it; a literal one is %25');
  }
}

function invalid(message: string): Problem {
  return new Problem('invalid_request', `The X-Actor header ${message}.`, {
    errors: [{ header: 'X-Actor', message }],
  });
}
