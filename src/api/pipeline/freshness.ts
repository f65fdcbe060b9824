import type { IncomingHttpHeaders } from 'node:http';
import type { Freshness } from '../../platform/base/call.ts';

/** Seconds; nothing is kept for longer. */
const mostSeconds = 2 ** 31;

/**
 * How old an answer a request takes, by its Cache-Control. `max-age` and `no-cache` (RFC 9111 section 5.2.1): `no-cache` and
 * a `max-age` that is no number stand for 0. `stale-if-error` (RFC 5861 section 4): one that is no number counts as not
 * there. Of several the shortest counts. Other directives are ignored.
 */
export function readFreshness({ 'cache-control': header }: IncomingHttpHeaders): Freshness {
  if (header === undefined) return { maxAgeSeconds: undefined };
  const directives = header.toLowerCase().split(',').map(readDirective);
  const ages = directives.flatMap(({ name, seconds }) => {
    if (name === 'no-cache') return [0];
    return name === 'max-age' ? [seconds ?? 0] : [];
  });
  const afterErrors = directives.flatMap(({ name, seconds }) =>
    name === 'stale-if-error' && seconds !== undefined ? [seconds] : [],
  );
  return { maxAgeSeconds: shortest(ages), staleIfErrorSeconds: shortest(afterErrors) };
}

/** `seconds`: undefined where its value is no number. */
function readDirective(directive: string): { name: string; seconds: number | undefined } {
  const [name = '', value = ''] = directive.split('=', 2).map((part) => part.trim());
  const digits = /^"?(\d+)"?$/.exec(value)?.[1];
  return { name, seconds: digits === undefined ? undefined : Math.min(Number(digits), mostSeconds) };
}

function shortest(seconds: readonly number[]): number | undefined {
  return seconds.length === 0 ? undefined : Math.min(...seconds);
}

export function ageHeader({ ageSeconds }: { ageSeconds?: number }): { age?: string } {
  return ageSeconds === undefined ? {} : { age: String(ageSeconds) };
}
