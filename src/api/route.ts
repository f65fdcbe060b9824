import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { Authentication } from '../identity/consumers/authentication.ts';
import type { RequiredPermission } from '../identity/consumers/permissions.ts';
import type { Caller } from '../identity/consumers/scopes.ts';
import type { Call } from '../platform/base/call.ts';
import type { Fault, Problem, ProblemCode } from '../platform/base/problem.ts';
import type { HistorySubject } from './history.ts';
import type { StoredAnswer } from './idempotency/keyed-request.ts';
import type { Claim } from './idempotency/ledger.ts';
import type { PassedRequest } from './pipeline/pass-on.ts';

export const platformTags = {
  Administration: 'Consumers and their credentials, and who tried to authenticate.',
  Operations: 'Health and documentation, without credentials.',
};

/**
 * Who may call a route. Every route states it: without it nothing compiles, so that no route is open by accident.
 * `byBody`: which permissions are needed, all of them, stands in the body; without any of `anyOf` the body is not even read. Without it
 * the handler decides, by what the request is about, and `byPath` finds the permission that an earlier refusal names: undefined
 * where the path names nothing that the caller can see. `showsMore`: what callers with valid credentials get in addition.
 */
export type Permission =
  | RequiredPermission
  | { anyCredentials: true }
  | {
      anyOf: RequiredPermission[];
      byBody?: (body: unknown) => readonly RequiredPermission[];
      byPath?: (params: unknown, consumer: Caller) => Promise<RequiredPermission | undefined>;
    }
  | { none: string; showsMore?: string };

export interface RequestSchemas {
  params?: TSchema;
  query?: TSchema;
  body?: TSchema;
}

type Part<S extends RequestSchemas, K extends keyof RequestSchemas> = S[K] extends TSchema
  ? Static<S[K]>
  : undefined;

export interface Input<S extends RequestSchemas, K extends KeyRule, P> {
  params: Part<S, 'params'>;
  query: Part<S, 'query'>;
  body: Part<S, 'body'>;
  prepared: P;
  faults: readonly Fault[];
  headers: IncomingHttpHeaders;
  bodyText: string;
  consumer: Caller | undefined;
  credential: string | undefined;
  /** Address of an authenticated caller; null where its connection has ended. */
  address: string | null;
  call: Call;
  /**
   * Has another route answer, after all of its own checks: then that one logs, measures and records the request. There, as
   * the next one, where the route declares `passesOn`.
   */
  passOn: ((inner: PassedRequest) => Promise<StoredAnswer>) | undefined;
  /** Throws `rate_limited` where the caller is over its limit; for before the route answers itself. */
  requireWithinLimit: (() => void) | undefined;
  claim: K extends 'required' ? Claim : Claim | undefined;
}

export type KeyRule = 'required' | 'optional' | 'ignored';

export interface RouteAnswer {
  status: number;
  headers?: Record<string, string>;
  cookies?: readonly string[];
  body?: string | Buffer;
  isStored?: true;
}

export interface DocumentedAnswer {
  description: string;
  schema?: TSchema;
  example?: unknown;
  said?: object;
  headers?: Record<string, string>;
  otherMedia?: readonly string[];
}

export interface Deprecation {
  /** Since when, RFC 3339. */
  since: string;
  /** When it may be removed, RFC 3339; not before `since`. */
  sunset: string;
  link: string;
}

export interface SignatureCheck {
  isSent(headers: IncomingHttpHeaders): boolean;
  /** Why a request is refused, in a word for the log; undefined where its signature is valid. Throws `Problem`. */
  refusalOf(headers: IncomingHttpHeaders, bytes: Buffer): string | undefined;
  sender: string;
  advice: string;
}

export interface FormCheck {
  /** Throws `Problem` for what can't be read. */
  authenticate(
    fields: ReadonlyMap<string, string>,
    headers: IncomingHttpHeaders,
  ): Authentication | Promise<Authentication>;
}

export interface Tool {
  /** At most 40 characters: hosts put a name of their own before it, and have a limit. */
  name: string;
  description: string;
  /** It ends or overwrites something; by default what PATCH and DELETE do. */
  isDestructive?: boolean;
  isOpenWorld?: true;
  decides?: true;
  /** The argument that is sent as If-Match: a member of what was read, in which it stands without quotes. */
  matches?: { name: string; description: string };
}

/** A step of a request. Only one that has to wait makes a promise: one for each step would cost a read more time than the steps. */
export type Step = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

export interface RouteDefinition<S extends RequestSchemas, K extends KeyRule, P> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** As the router writes it, e.g. `/v1/quotes/:id`. */
  path: string;
  operationId: string;
  tag: string;
  summary: string;
  description?: string;
  permission: Permission;
  approvalAdvice?: string;
  /** A creation: a repeat of an unfinished one is answered with its record, where there is one, whatever the caller may do by now. */
  looksFirst?: true;
  isUnlisted?: true;
  tool?: Tool;
  passesOn?: true;
  signature?: SignatureCheck;
  form?: FormCheck;
  /** The answer to a problem where another standard says how; undefined: as everywhere. */
  answerProblem?(problem: Problem, headers: IncomingHttpHeaders): RouteAnswer | undefined;
  tellsFaults?: true;
  /** Bytes of the body at most, where it is less than usual. */
  maxBodyBytes?: number;
  deprecation?: Deprecation;
  preferable?: true;
  conditional?: 'If-Match' | 'If-None-Match';
  writesSecrets?: true;
  takesAge?: true;
  /** Name of the record that it changes, whatever its state where there is no If-Match, for callers that see all. */
  overwrites?(params: Part<S, 'params'>): string;
  idempotencyKey: K;
  /**
   * Subjects of its requests with a key, for histories: types of records, several where the request says which one it is.
   * `makes`: the request makes the record.
   */
  requested?: { about: readonly HistorySubject['type'][]; makes?: true };
  /** Without a key the same body from the same consumer counts as a repeat for so long; 0 or absent: never. */
  repeatWindowSeconds?: number;
  request: S;
  bodyOptional?: true;
  requestExample?: unknown;
  events?: { resource: string; data?: TSchema; examples?: Readonly<Record<string, object>> };
  answers: Record<number, DocumentedAnswer>;
  problems: readonly ProblemCode[];
  /**
   * Reads and checks what the schema can't, such as text that must pass unchanged. Runs before the key is claimed, so a
   * refusal stores nothing. Throws `Problem`.
   */
  prepare?(body: Part<S, 'body'>, bodyText: string): P;
  /**
   * The fields of the permission's resource that a request writes, or by which it filters. A caller whose permission names
   * fields needs each of them. Runs before the schemas are checked; for such callers only.
   */
  usedFields?(request: { body: unknown; query: unknown }, resource: string): readonly string[];
  showStored?(answer: StoredAnswer, call: Call, body: Part<S, 'body'>): StoredAnswer;
  /**
   * Before a stored answer is given again, where the handler decides who may: throws `Problem` where the caller may not ask
   * for it now.
   */
  checkRepeat?(input: Pick<Input<S, K, P>, 'params' | 'consumer'>): Promise<void>;
  /**
   * Before the answer to a change is given again that its caller made when it could see other records: throws `not_found` where it
   * does not see the record now. Without it, such a repeat is another request.
   */
  checkSeen?(input: { params: Part<S, 'params'>; call: Call }): Promise<void>;
  externalIdOf?(input: Pick<Input<S, K, P>, 'prepared' | 'consumer'>): string | undefined;
  recordsOf?(input: Pick<Input<S, K, P>, 'prepared' | 'consumer'>, externalId: string): string[];
  /** Throws `Problem` where the work could not be done now. Runs before the key is claimed. */
  admit?(call: Call, input: Pick<Input<S, K, P>, 'headers' | 'body' | 'consumer'>): void;
  handle(input: Input<S, K, P>): Promise<RouteAnswer>;
  /**
   * The answer of an interrupted creation, if its record exists; for the job that clears the ledger. Throws while the claim
   * must stay. Left out where an interrupted request leaves nothing.
   */
  reconcile?(externalId: string, call: Call, records: readonly string[]): Promise<RouteAnswer | undefined>;
}

export type Route = RouteDefinition<RequestSchemas, KeyRule, unknown>;

export function defineRoute<const S extends RequestSchemas, const K extends KeyRule, P = undefined>(
  route: RouteDefinition<S, K, P>,
): Route {
  return route;
}

export function json(status: number, value: unknown, headers: Record<string, string> = {}): RouteAnswer {
  return { status, body: JSON.stringify(value), headers };
}

export function storesAnswers(route: Route): boolean {
  const { idempotencyKey, repeatWindowSeconds = 0, tool } = route;
  return idempotencyKey !== 'ignored' || repeatWindowSeconds > 0 || (tool !== undefined && isWrite(route));
}

/** A check, which tells faults in its answer, writes nothing. */
export function isWrite({ method, tellsFaults }: Pick<Route, 'method' | 'tellsFaults'>): boolean {
  return method !== 'GET' && tellsFaults === undefined;
}

export function isPublic(permission: Permission): permission is { none: string; showsMore?: string } {
  return 'none' in permission;
}

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
