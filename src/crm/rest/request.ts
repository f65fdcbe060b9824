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
}

export interface CrmAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed JSON body; undefined where there is none. */
  body: unknown;
}

/** One policy around another: the layers of the client all have this shape. */
export type Send = (request: CrmRequest, call: Call) => Promise<CrmAnswer>;

/** The layers below the token policy. */
export type SendWithToken = (request: CrmRequest, call: Call, token: AccessToken) => Promise<CrmAnswer>;

/** A single header's value. */
export function header(headers: CrmAnswer['headers'], name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
