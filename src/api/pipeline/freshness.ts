import type { IncomingHttpHeaders } from 'node:http';
import type { Freshness } from '../../platform/base/call.ts';

/** Seconds; nothing is kept for longer. */
const mostSeconds = 2 ** 31;

/**
 * How old an answer a request takes, by its Cache-Control (RFC 9111 section 5.2.1): `no-cache` and a `max-age` that is no
 * number stand for 0; of several `max-age` the shortest counts. Other directives are ignored.
 */
export function readFreshness({ 'cache-control': header }: IncomingHttpHeaders): Freshness {
  if (header === undefined) return { maxAgeSeconds: undefined };
  const ages = header.toLowerCase().split(',').flatMap(ageOf);
  return { maxAgeSeconds: ages.length === 0 ? undefined : Math.min(...ages) };
}

/** The seconds that a directive allows; nothing where it is about something else. */
function ageOf(directive: string): number[] {
  const [name = '', value = ''] = directive.split('=', 2).map((part) => part.trim());
  if (name === 'no-cache') return [0];
  if (name !== 'max-age') return [];
  return [Math.min(Number(/^"?(\d+)"?$/.exec(value)?.[1] ?? 0), mostSeconds)];
}

/** The header that says how old an answer is, where it is not the CRM's of now. */
export function ageHeader({ ageSeconds }: Freshness): { age?: string } {
  return ageSeconds === undefined ? {} : { age: String(ageSeconds) };
}
