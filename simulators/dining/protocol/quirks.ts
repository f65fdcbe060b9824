/** Ways in which real servers differ; each is off until it is switched on. */
export const QUIRKS = {
  numbers: 'int64 as bare numbers',
  camelCase: 'names in lowerCamelCase',
  printsDefaults: 'default values are printed: available false, empty lists, statuses UNSPECIFIED',
  minimalUpdate: 'UpdateBooking answers with booking_id and status alone',
  slotlessCancel: 'a cancelled booking is answered without its slot and without its status',
  unknownBookingAs200: 'an unknown booking is a booking_failure BOOKING_NOT_FOUND with 200, not a 404',
  noGetBookingStatus: 'GetBookingStatus answers 501',
  noListBookings: 'ListBookings answers 501',
  newIdOnReschedule: 'a changed booking gets a new id',
  echoesOtherStart: 'BatchAvailabilityLookup echoes another start_sec',
  textErrors: 'errors as text/plain',
  inventedCauses: 'failures with causes that the protocol does not have',
  withoutPrepaymentStatus: 'prepayment_status left out',
  openHealthCheck: 'HealthCheck needs no credentials',
  forgetsTokens: 'idempotency tokens are not looked at',
} as const;

export type Quirk = keyof typeof QUIRKS;
