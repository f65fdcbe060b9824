import type { Call } from '../../../platform/base/call.ts';
import type { ConnectionState } from '../../../platform/observability/health.ts';
import type { FieldValues } from '../../../records/records.ts';
import type { Merchant } from '../merchants.ts';

/**
 * A system that a unified resource spans: its part of the resource can be created, read and cancelled there.
 * Every connector passes the same conformance suite, and its health appears in `/v1/healthz` under its name.
 */
export interface Connector<Order, Part extends ConnectorPart = ConnectorPart> {
  readonly name: string;
  /**
   * Makes the part exactly once for each token, however often it is called with the same token and order. Throws
   * `Problem`: a final refusal (422) means that there is no part and will be none; with `outcomeUnknown` it is not known
   * whether there is one; with any other, this attempt made none.
   */
  create(order: Order, attempt: CreateAttempt, call: Call): Promise<Part>;
  /**
   * The part as it is now, or undefined where there is none. Throws `Problem` where it can't be known. `order` is what
   * it was made from: some systems can find a part only by that.
   */
  retrieve(reference: string, order: Order, call: Call): Promise<Part | undefined>;
  /**
   * Undoes the part; one that is undone or gone already counts as done. Throws `Problem`: `conflict` where the system
   * refuses and the part stands as it was.
   */
  cancel(reference: string, order: Order, call: Call): Promise<void>;
  /** Whether the system answers; all callers share a recent result, so that frequent checks cost nothing. */
  checkHealth(): Promise<ConnectionState>;
}

export interface CreateAttempt {
  /** A UUID, stored before the first attempt and the same in all further ones. */
  token: string;
  /** An earlier attempt with this token may have made the part: it is looked for, and a refusal that it could have caused
   * itself is not final. */
  repeated: boolean;
  /**
   * Whether the part is known to belong to another order. Where a system finds the part of an earlier attempt by
   * likeness only, this keeps two orders of one guest from sharing a part. Throws `Problem` while it can't be known.
   */
  isOthers(reference: string): Promise<boolean>;
}

export interface ConnectorPart {
  reference: string;
  status: PartStatus;
}

/** `pending`: the system decides later. `failed`: it decided against. */
export type PartStatus = 'pending' | 'confirmed' | 'cancelled' | 'failed';

export type BookingOrder = FieldValues & { status: PartStatus };

export interface BookingPart extends ConnectorPart {
  crmStatus: string | null;
}

export interface CrmConnector extends Connector<BookingOrder, BookingPart> {
  /**
   * Writes the booking's state; omitted details stay as they are. `ifGone`: whether a booking that was deleted in the CRM
   * is made again. Safe to repeat. Throws `Problem`.
   */
  write(
    reference: string,
    order: BookingOrder,
    options: { ifGone: 'make' | 'leave' },
    call: Call,
  ): Promise<void>;
}

export interface TableConnector extends Connector<TableOrder> {
  merchants(call: Call): readonly Merchant[];
  /**
   * Whether a table is free, for each of these slots of one merchant. What the partner never offers is not. Throws
   * `Problem` where the partner does not say.
   */
  areFree(slots: readonly TableSlot[], call: Call): Promise<boolean[]>;
}

export interface TableSlot {
  merchantId: string;
  serviceId: string;
  /** RFC 3339 UTC with milliseconds, whole seconds. */
  startAt: string;
  /** 1 to 50 guests. */
  partySize: number;
  durationMinutes: number;
}

export interface TableOrder extends TableSlot {
  /** External ID of the member; the partner's `user_id`, by which their bookings are found again. */
  memberId: string;
  /** IANA name of the restaurant's time zone; null where nobody has said it. */
  timeZone: string | null;
  guest: {
    /** 40 characters at most, as the family name. */
    givenName: string;
    familyName: string;
    email: string;
    /** With `+` and country code. */
    phone: string;
  };
  note?: string;
}
