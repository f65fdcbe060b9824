/** `BookingFailure.Cause` of the public interface definition, and the newer ones that servers use. */
export const CAUSES = [
  'CAUSE_UNSPECIFIED',
  'SLOT_UNAVAILABLE',
  'SLOT_ALREADY_BOOKED_BY_USER',
  'OVERLAPPING_RESERVATION',
  'USER_OVER_BOOKING_LIMIT',
  'LEASE_EXPIRED',
  'OUTSIDE_CANCELLATION_WINDOW',
  'BOOKING_ALREADY_CANCELLED',
  'BOOKING_NOT_CANCELLABLE',
  'OFFER_UNAVAILABLE',
  'PAYMENT_ERROR_CARD_TYPE_REJECTED',
  'PAYMENT_ERROR_CARD_DECLINED',
  'PAYMENT_OPTION_NOT_VALID',
  'PAYMENT_ERROR',
  'USER_CANNOT_USE_PAYMENT_OPTION',
  'PAYMENT_REQUIRES_3DS1',
  'UNSUPPORTED_NAME',
  'UNSUPPORTED_PHONE_NUMBER',
  'BANNED_USER',
] as const;

/** A refusal for a business reason: HTTP 200 with `booking_failure`. The cause may be an invented one. */
export class Failure extends Error {
  override readonly cause: string;

  constructor(cause: string, description: string) {
    super(description);
    this.cause = cause;
  }
}

export function fail(cause: (typeof CAUSES)[number], description: string): never {
  throw new Failure(cause, description);
}
