import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import leven from 'leven';
import type { Freshness } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import { copyOfText, escapeInvisible, isVisible, visibleRule } from '../../platform/base/text.ts';
import { parseIdempotencyKey } from '../idempotency/keyed-request.ts';
import type { Step } from '../route.ts';
import { isPublic, type Route, type RouteAnswer } from '../route.ts';
import { passedRequestOf } from './pass-on.ts';

declare module 'fastify' {
  interface FastifyRequest {
    actor: string | undefined;
    idempotencyKey: string | undefined;
  }
}

const hostExpression = /^(?:\w[\w.-]{0,254}|\[([\da-f:.]+)\])(?::(\d{1,5}))?$/i;

/** Refuses other versions of HTTP, and requests without exactly one right Host header (RFC 9112 section 3.2). */
export function requireHost({ raw }: FastifyRequest): void {
  const { httpVersionMajor: major, httpVersion, headers } = raw;
  if (major !== 1)
    throw new Problem('invalid_request', `HTTP/${httpVersion} isn't supported here. Use HTTP/1.1.`);
  const { host } = headers;
  if (host === undefined) {
    if (httpVersion === '1.1') refuseHost('is missing');
  } else if (isSentTwice(raw)) refuseHost('must be sent once');
  else if (!isHost(host)) refuseHost('must be a host name or address, with an optional port');
}

function isSentTwice({ rawHeaders }: IncomingMessage): boolean {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count > 1;
}

function isHost(text: string): boolean {
  const [found, ipv6, port = '0'] = hostExpression.exec(text) ?? [];
  return found !== undefined && (ipv6 === undefined || isIPv6(ipv6)) && Number(port) < 65_536;
}

function refuseHost(message: string): never {
  throw new Problem('invalid_request', `The Host header ${message}.`, {
    errors: [{ header: 'Host', message }],
  });
}

/** A path with more characters or parts is nobody's slip of the pen. */
const longestPath = 200;
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
    throw new Problem('not_found', `There's nothing at this path.${hint} /v1/docs describes every path.`);
  };
}

function endsInSlash(request: FastifyRequest): boolean {
  // The pattern comes last: each access makes the framework build new options.
  return /^[^?]*\/(?:\?|$)/.test(request.url) && !/[/*]$/.test(request.routeOptions.url ?? '');
}

const prefixes = ['api', 'v1'];

function nearest(url: string, known: readonly { path: string; parts: string[] }[]): string | undefined {
  const [path = ''] = url.split('?', 1);
  const asked = partsOf(path.toLowerCase());
  if (path.length > longestPath || asked.length > mostParts || asked.length === 0) return undefined;
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

/** Characters at most, as the CRM's field has them. */
const maxActorLength = 255;

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
    if (more.length > 0) throw invalidActor('must be sent once');
    request.actor = parseActor(value);
  };
}

/** The value of X-Actor: UTF-8, percent-encoded where it is not ASCII. Throws `invalid_request`. */
export function parseActor(header: string): string {
  if (/[^\x20-\x7e]/.test(header))
    throw invalidActor("must be percent-encoded as UTF-8 where it isn't ASCII");
  const actor = decode(header);
  if (!/\S/.test(actor)) throw invalidActor('must not be empty');
  if ([...actor].length > maxActorLength)
    throw invalidActor(`must have at most ${maxActorLength} characters`);
  if (!isVisible(actor)) throw invalidActor(visibleRule);
  return actor;
}

function decode(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    throw invalidActor('has a percent sign without the two digits of UTF-8 after it; a literal one is %25');
  }
}

function invalidActor(message: string): Problem {
  return new Problem('invalid_request', `The X-Actor header ${message}.`, {
    errors: [{ header: 'X-Actor', message }],
  });
}

/**
 * Checks the Idempotency-Key header before the body's schema is. Throws `idempotency_key_missing`, `…_invalid`, and what a
 * request that was passed on says.
 */
export function readIdempotencyKey(route: Route): Step {
  return (request) => {
    const passed = passedRequestOf(request.raw);
    if (passed?.refusal) throw passed.refusal;
    if (route.idempotencyKey === 'ignored' || (passed !== undefined && route.method !== 'GET')) return;
    const header = request.headers['idempotency-key'];
    if (typeof header === 'string') request.idempotencyKey = parseIdempotencyKey(header);
    else if (route.idempotencyKey === 'required') throw keyMissing();
  };
}

function keyMissing(): Problem {
  const message = 'is missing; send a new UUID with each new write, and the same one when you repeat it';
  return new Problem('idempotency_key_missing', `The Idempotency-Key header ${message}.`, {
    errors: [{ header: 'Idempotency-Key', message }],
  });
}

const entityTags = /(?:W\/)?"[^"]*"/g;

/** Whether If-None-Match names this entity tag, so that 304 is the answer (weak comparison, RFC 9110 section 13.1.2). */
export function isNotModified(header: string | undefined, entityTag: string): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return (header.match(entityTags) ?? []).some((candidate) => candidate.replace(/^W\//, '') === entityTag);
}

export function unlessNotModified(
  header: string | undefined,
  answer: { status: number; body: string; headers: { etag: string; 'cache-control'?: string; age?: string } },
): RouteAnswer {
  return isNotModified(header, answer.headers.etag) ? { status: 304, headers: answer.headers } : answer;
}

export function isConditional(header: string | undefined): boolean {
  return header !== undefined && header.trim() !== '*';
}

/** The record's part of the tag of an answer that shows more beside it: 66 bits, and a mark that a record's tag has only by chance. */
const beginBeside = (entityTag: string) => `${entityTag.slice(0, 12)}--`;

/** Tag of an answer that shows more than the record with this tag; preconditions go by the record's part alone. */
export function tagBeside(entityTag: string, ofAnswer: string): string {
  return `${beginBeside(entityTag)}${ofAnswer.slice(1, 10)}"`;
}

export function isMatch(header: string | undefined, entityTag: string): boolean {
  if (header === undefined || !isConditional(header)) return true;
  const beside = beginBeside(entityTag);
  return (header.match(entityTags) ?? []).some((one) => one === entityTag || one.startsWith(beside));
}

/**
 * Checks If-Match against the record as it is now (strong comparison: a weak tag never matches, RFC 9110 section
 * 13.1.1). Throws `precondition_failed`.
 */
export function requireMatch(header: string | undefined, entityTag: string): void {
  if (!isMatch(header, entityTag)) throw hasChanged();
}

export function hasChanged(): Problem {
  const detail = 'The record has changed since the version in If-Match; read it again.';
  return new Problem('precondition_failed', detail);
}

/** The declaration of a 304 to If-None-Match, beside that of the 200 with these headers. */
export function unchanged<Headers extends Record<string, string>>(headers: Headers) {
  return { description: "It hasn't changed since the response with the tag in If-None-Match.", headers };
}

export const tagHeader = { ETag: 'Strong entity tag of the record, for If-Match and If-None-Match.' };

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

/** Characters that are kept of what a client calls itself. */
const maxNameLength = 255;

/** At most 255 characters; null where the client sends none. 50,000 attempts may hold one. */
export function userAgentOf({ 'user-agent': name }: IncomingHttpHeaders): string | null {
  if (name === undefined) return null;
  const shown = escapeInvisible(name.slice(0, maxNameLength));
  return shown === name ? name : copyOfText(shown.slice(0, maxNameLength));
}
