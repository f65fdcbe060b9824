import type { Call } from '../../platform/base/call.ts';
import type { Resource } from '../../records/resource.ts';
import type { RowsQuery } from '../soql/query.ts';
import type { AccessToken } from '../token/access-token.ts';
import type { TakeRow } from './row-stream.ts';

/** Records that the CRM takes in one Collections call, and rows that fit on one page. */
export const largestBatch = 200;

export interface Part {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  body?: object;
  /** Headers that the part does not take over from the call (REST Developer Guide, Composite: all but three). */
  httpHeaders?: Readonly<Record<string, string>>;
  query?: RowsQuery;
}

export interface CrmRequest {
  operation:
    | ('query' | 'changes' | 'create' | 'update' | 'delete' | 'userinfo' | 'identity' | 'describe')
    | 'mixed';
  /**
   * Meaning of a lost answer. `read`: nothing, ask again. `create`, `change`: the outcome is unknown, and the record may
   * have been deleted or changed since; it is looked at before anything is sent again.
   */
  effect: 'read' | 'create' | 'change';
  method: Part['method'];
  path: string;
  body?: object;
  parts?: readonly Part[];
  query?: RowsQuery;
  resource?: Resource;
  /** Milliseconds since 1970: from then on it is not sent any more. */
  notAfter?: number | undefined;
  addressesRecord?: boolean;
  /**
   * Where answers stand inside the answer: what it comes to. Throws `CrmFailure` where it stands for a failure of the
   * whole call, so that all policies see it.
   */
  unwrap?: (answer: CrmAnswer) => CrmAnswer;
  isAfterLoss?: boolean | undefined;
  /** Records in the batch. A batch of several that takes too long is halved, not repeated. */
  records?: number;
  /**
   * For a query whose rows are many or large: makes the taker of a try's rows, and the answer's body has a 0 instead
   * of each. Where the taker refuses a row there is no body, and the rest is not read.
   */
  takeRows?: () => TakeRow;
  frameDepth?: number;
}

export function isMetered({ path }: Pick<CrmRequest, 'path'>): boolean {
  return path.startsWith('/services/data/');
}

export interface CrmAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed JSON body; undefined where there is none. */
  body: unknown;
}

export function isSuccess({ status }: Pick<CrmAnswer, 'status'>): boolean {
  return status >= 200 && status < 300;
}

export interface Permit {
  token: AccessToken;
  release(isSpent?: boolean): void;
  /** The Composite call of which the request is to be a part; undefined for a call of its own. */
  shared?: { join(request: CrmRequest, call: BatchCall): Promise<CrmAnswer> };
}

export function header(headers: CrmAnswer['headers'], name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

export interface BatchCall extends Call {
  kind: string;
  sharers?: readonly (string | undefined)[];
}

export function tenantOf(call: Call | BatchCall): string {
  return 'kind' in call ? call.kind : `consumer ${call.consumerId ?? ''}`;
}

export function sharersOf(call: Call | BatchCall): readonly (string | undefined)[] {
  return ('kind' in call && call.sharers) || [call.consumerId];
}

export function countByConsumer(sharers: readonly (string | undefined)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const consumer of sharers) counts.set(consumer ?? '', (counts.get(consumer ?? '') ?? 0) + 1);
  return counts;
}
