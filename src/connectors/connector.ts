import type { Call } from '../base/call.ts';
import type { ConnectionState } from '../observability/health.ts';

/**
 * One of the systems that a unified resource spans, seen as a place where its part can be made, read and undone.
 * Every connector passes the same conformance suite, and its health appears in `/v1/healthz` under its name.
 */
export interface Connector<Order, Part extends ConnectorPart = ConnectorPart> {
  /** Its entry in the health report; lower case letters. */
  readonly name: string;
  /**
   * Makes the part exactly once for each token, however often it is called with the same token and order. Throws
   * `Problem`: a final refusal (422) means that there is no part and will be none; with `outcomeUnknown` nobody knows
   * whether there is one; with any other, this attempt made none.
   */
  create(order: Order, attempt: Attempt, call: Call): Promise<Part>;
  /**
   * The part as it is now, or undefined where there is none. Throws `Problem` where it can't be known. `order` is what
   * it was made by: some systems find a part by that only.
   */
  retrieve(reference: string, order: Order, call: Call): Promise<Part | undefined>;
  /**
   * Undoes the part; one that is undone or gone already counts as done. Throws `Problem`: `conflict` where the system
   * refuses and the part stands as it was.
   */
  cancel(reference: string, call: Call): Promise<void>;
  /** Whether the system answers us; shared by all callers, so that asking often costs nothing. */
  checkHealth(): Promise<ConnectionState>;
}

export interface Attempt {
  /** A UUID, stored before the first attempt and the same in all further ones. */
  token: string;
  /** An earlier attempt with this token may have come through: its part is looked for, and refusals that it could have caused itself are not taken for final. */
  repeated: boolean;
  /**
   * Whether the part is known to belong to another order. Where a system can only tell by likeness which part an earlier
   * attempt has made, this keeps two orders of one guest from sharing a part.
   */
  isOthers(reference: string): Promise<boolean>;
}

export interface ConnectorPart {
  /** What the system knows the part by. */
  reference: string;
  status: PartStatus;
}

/** `pending`: the system decides later. `failed`: it decided against. */
export type PartStatus = 'pending' | 'confirmed' | 'cancelled' | 'failed';
