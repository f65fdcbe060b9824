import type { ConnectorPart } from '../connector.ts';

/** A table as it is asked for; plans of reservations are stored with it. */
export interface DiningOrder {
  /** External ID of the member; the partner's `user_id`, by which their bookings are found again. */
  memberId: string;
  merchantId: string;
  serviceId: string;
  /** RFC 3339 UTC with milliseconds, whole seconds. */
  startAt: string;
  /** 1 to 50 guests. */
  partySize: number;
  durationMinutes: number;
  guest: DiningGuest;
  /** Shown to the restaurant. */
  note?: string;
}

/** Who comes. */
export interface DiningGuest {
  /** 40 characters at most, as the family name. */
  givenName: string;
  familyName: string;
  email: string;
  /** With `+` and country code. */
  phone: string;
}

/** A table as the partner has it. */
export interface DiningPart extends ConnectorPart {
  /** RFC 3339 UTC; undefined where the partner tells the status alone. */
  startAt: string | undefined;
  partySize: number | undefined;
}
