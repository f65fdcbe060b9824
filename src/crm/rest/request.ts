import type { Call } from '../../base/call.ts';
import type { Resource } from '../../resources/resource.ts';
import type { AccessToken } from '../token/access-token.ts';

/** One call to the CRM's data API. */
export interface CrmRequest {
  /** Name for metrics; one of few. */
  operation: 'query' | 'create' | 'update' | 'delete' | 'userinfo' | 'identity' | 'describe';
  /**
   * What a lost answer means. `read`: nothing, ask again. `create`: it carries the unique External ID, so sending it
   * again makes no second record. `change`: nobody knows, and somebody else may have written since; not sent again.
   */
  effect: 'read' | 'create' | 'change';
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Path and query on the instance. */
  path: string;
  body?: object;
  /** What the request is about: errors name its fields as the API does. */
  resource?: Resource;
  /** The path names one record: NOT_FOUND then means that this record is gone. */
  addressesRecord?: boolean;
  /** Records that were gathered into it. One that holds several and takes too long is halved, not repeated. */
  records?: number;
}

export interface CrmAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed JSON body; undefined where there is none. */
  body: unknown;
}

/** One request through all layers of the client. */
export type Send = (request: CrmRequest, call: Call) => Promise<CrmAnswer>;

/**
 * A request that is written only once it has its slot, so that what arrives while it waits can still join it. Written
 * once: asked again, it is the same.
 */
export type Draft = () => CrmRequest;

/** One policy around another: the layers of the client all have this shape. */
export type SendDraft = (draft: Draft, call: Call) => Promise<CrmAnswer>;

/** The layers below the token policy. */
export type SendWithToken = (draft: Draft, call: Call, token: AccessToken) => Promise<CrmAnswer>;

/** A single header's value. */
export function header(headers: CrmAnswer['headers'], name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
