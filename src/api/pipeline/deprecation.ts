import type { Deprecation } from '../route.ts';

/**
 * The headers that announce the end of a route: Deprecation (RFC 9745), Sunset (RFC 8594) and links to what they mean.
 * Throws where a moment is no date, or where the end comes before the announcement, which RFC 9745 forbids.
 */
export function deprecationHeaders({ since, sunset, link }: Deprecation): Record<string, string> {
  const [from, end] = [new Date(since), new Date(sunset)];
  if (!(from <= end)) throw new Error(`a deprecation from ${since} to ${sunset} is not in order`);
  return {
    deprecation: `@${Math.floor(from.getTime() / 1000)}`,
    sunset: end.toUTCString(),
    link: `<${link}>; rel="deprecation"; type="text/html", <${link}>; rel="sunset"; type="text/html"`,
  };
}
