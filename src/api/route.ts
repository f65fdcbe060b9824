import type { IncomingHttpHeaders } from 'node:http';
import type { Static, TSchema } from 'typebox';
import type { Call } from '../base/call.ts';
import type { ProblemCode } from '../base/problem.ts';
import type { PermissionAction, PermissionResource } from '../consumers/consumer.ts';
import type { Claim } from '../idempotency/ledger.ts';
import type { Tag } from './openapi/tags.ts';

export interface RequiredPermission {
  resource: PermissionResource;
  action: PermissionAction;
}

/**
 * Who may call a route. Every route states it: without it nothing compiles, so that no route is open by accident.
 * `byBody`: which permission is needed stands in the body; without any of `anyOf` the body is not even read.
 */
export type Permission =
  | RequiredPermission
  | { anyOf: RequiredPermission[]; byBody: (body: unknown) => RequiredPermission }
  | { none: string };

export interface RequestSchemas {
  params?: TSchema;
  query?: TSchema;
  body?: TSchema;
}

type Part<S extends RequestSchemas, K extends keyof RequestSchemas> = S[K] extends TSchema
  ? Static<S[K]>
  : undefined;

/** What a handler gets: everything checked, nothing of the HTTP framework. */
export interface Input<S extends RequestSchemas, K extends KeyRule, P> {
  params: Part<S, 'params'>;
  query: Part<S, 'query'>;
  body: Part<S, 'body'>;
  /** What `prepare` made of the body. */
  prepared: P;
  headers: IncomingHttpHeaders;
  /** The body as it came. */
  bodyText: string;
  call: Call;
  /** Present when the request runs under an Idempotency-Key. */
  claim: K extends 'required' ? Claim : Claim | undefined;
}

export type KeyRule = 'required' | 'optional' | 'ignored';

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** JSON, unless `headers` names another content type. */
  body?: string;
  /** The claim of the key was completed with it already. */
  isStored?: true;
}

/** A documented answer: what it means, its schema, an example, and headers beyond the usual. */
export interface DocumentedAnswer {
  description: string;
  schema?: TSchema;
  /** Made from the examples of the schema's parts where it is left out. */
  example?: unknown;
  headers?: Record<string, string>;
  /** Content types beyond JSON. */
  otherMedia?: readonly string[];
}

/** The announced end of a route; all three stand in its answers and in the documentation. */
export interface Deprecation {
  /** Since when, RFC 3339. */
  since: string;
  /** From when on it may be gone, RFC 3339; not before `since`. */
  sunset: string;
  /** Address of a page that says what to do instead. */
  link: string;
}

/** What lets requests in that carry a signature over the bytes of their body, in place of credentials. */
export interface SignatureCheck {
  /** Why a request is refused, in a word for the log; undefined where its signature is right. Throws `Problem`. */
  refusalOf(headers: IncomingHttpHeaders, bytes: Buffer): string | undefined;
  /** As whom requests with a right signature are counted. */
  sender: string;
  /** What the refused are told to do. */
  advice: string;
}

export interface RouteDefinition<S extends RequestSchemas, K extends KeyRule, P> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** As the router writes it, e.g. `/v1/quotes/:id`. */
  path: string;
  operationId: string;
  tag: Tag;
  summary: string;
  description?: string;
  permission: Permission;
  /** Checked before anything of the body is looked at. */
  signature?: SignatureCheck;
  /** Bytes of the body at most, where it is less than usual. */
  maxBodyBytes?: number;
  deprecation?: Deprecation;
  /** The precondition that it honours, for the documentation. */
  conditional?: 'If-Match' | 'If-None-Match';
  /** Whether an Idempotency-Key is needed, honoured when sent, or of no meaning here. */
  idempotencyKey: K;
  request: S;
  /** The body may be left out; the handler then gets an empty object. */
  bodyOptional?: true;
  requestExample?: unknown;
  answers: Record<number, DocumentedAnswer>;
  /** Codes that it can answer with, beyond those that follow from permission, body and key. */
  problems: readonly ProblemCode[];
  /**
   * Reads and checks what the schema can't, such as text that must pass unchanged. It runs before the key is claimed:
   * what it refuses touches nothing. Throws `Problem`.
   */
  prepare?(body: Part<S, 'body'>, bodyText: string): P;
  /** Throws `Problem` where the work could not be done now; asked before the key is claimed. */
  admit?(call: Call): void;
  handle(input: Input<S, K, P>): Promise<Answer>;
  /**
   * The answer of a creation that was never finished, if its record exists; for the job that clears the ledger.
   * Routes whose unfinished requests leave nothing to look for have none.
   */
  settle?(externalId: string, call: Call): Promise<Answer | undefined>;
}

/** A route whose schemas are no longer in its type, so that all of them fit one list. */
export type Route = RouteDefinition<RequestSchemas, KeyRule, unknown>;

/** Checks a route's handler against its schemas, and forgets them for the list. */
export function defineRoute<const S extends RequestSchemas, const K extends KeyRule, P = undefined>(
  route: RouteDefinition<S, K, P>,
): Route {
  return route;
}

/** A JSON answer. */
export function json(status: number, value: unknown, headers: Record<string, string> = {}): Answer {
  return { status, body: JSON.stringify(value), headers };
}

export function isPublic(permission: Permission): permission is { none: string } {
  return 'none' in permission;
}
