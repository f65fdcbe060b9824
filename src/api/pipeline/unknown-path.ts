import type { FastifyRequest } from 'fastify';
import leven from 'leven';
import { Problem } from '../../platform/base/problem.ts';
import type { Step } from './step.ts';

/** A path with more characters or parts is nobody's slip of the pen. */
const longest = 200;
const mostParts = 8;
/** Wrong characters in a path that is still meant to be another. */
const mostWrong = 3;

export function refuseUnknownPaths(paths: readonly string[]): Step {
  const known = [...new Set(paths)]
    .map((path) => ({ path: path.replaceAll(/:(\w+)/g, '{$1}'), parts: partsOf(path) }))
    .filter(({ parts }) => parts.length > 0);
  return (request: FastifyRequest) => {
    const { is404, url } = request;
    if (!is404 && !endsInSlash(request)) return;
    const meant = nearest(url, known);
    const hint = meant === undefined ? '' : ` Did you mean ${meant}?`;
    throw new Problem('not_found', `There is nothing at this path.${hint} /v1/docs describes every path.`);
  };
}

function endsInSlash(request: FastifyRequest): boolean {
  // The pattern comes last: each access makes the framework build new options.
  return /^[^?]*\/(?:\?|$)/.test(request.url) && !/[/*]$/.test(request.routeOptions.url ?? '');
}

const prefixes = ['api', 'v1'];

interface KnownPath {
  path: string;
  parts: string[];
}

function nearest(url: string, known: readonly KnownPath[]): string | undefined {
  const [path = ''] = url.split('?', 1);
  const asked = partsOf(path.toLowerCase());
  if (path.length > longest || asked.length > mostParts || asked.length === 0) return undefined;
  const distances = known.map((each) => ({ ...each, wrong: distanceOf(asked, each.parts) }));
  const best = distances.reduce((least, each) => (each.wrong < least.wrong ? each : least));
  return best.wrong <= mostWrong ? best.path : undefined;
}

/** Wrong characters; a prefix too many or too few counts as one. Infinite for paths of other lengths. */
function distanceOf(asked: readonly string[], parts: readonly string[]): number {
  if (asked.length !== parts.length) {
    const longer = asked.length > parts.length ? asked : parts;
    if (!prefixes.includes(longer[0] as string)) return Infinity;
    return 1 + (longer === asked ? distanceOf(asked.slice(1), parts) : distanceOf(asked, parts.slice(1)));
  }
  // Anything fits a parameter.
  return parts.reduce((sum, part, i) => sum + (part.startsWith(':') ? 0 : wrongIn(part, asked[i] ?? '')), 0);
}

/** Infinite where more than half of the characters are wrong. */
function wrongIn(part: string, asked: string): number {
  const wrong = leven(part, asked);
  return wrong > Math.max(part.length, asked.length) / 2 ? Infinity : wrong;
}

function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '');
}
