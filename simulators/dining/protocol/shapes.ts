/**
 * The messages of the Booking Server API v3 that come in, by the public interface definition `api_v3.proto`: what
 * each field is, and whether a call without it is refused.
 */
export type Shape = Record<string, Field>;

export type Field = { required?: true } & (
  | { type: 'string' | 'int32' | 'int64' | 'bool' }
  | { type: 'list' | 'message'; of: Shape }
);

const text = { type: 'string' } as const;
const int32 = { type: 'int32' } as const;
const int64 = { type: 'int64' } as const;
const message = (of: Shape) => ({ type: 'message', of }) as const;
const required = <F extends Field>(field: F) => ({ ...field, required: true }) as const;

const resourceIds: Shape = { party_size: int32, staff_id: text, room_id: text };
const price: Shape = { price_micros: int64, currency_code: text, pricing_option_tag: text };
const address: Shape = {
  country: text,
  locality: text,
  region: text,
  postal_code: text,
  street_address: text,
};

const slotTime: Shape = {
  service_id: required(text),
  start_sec: required(int64),
  duration_sec: int64,
  availability_tag: text,
  resource_ids: message(resourceIds),
  confirmation_mode: text,
};

/** A slot of a change: only what changes is sent. */
const changedSlot: Shape = {
  merchant_id: text,
  service_id: text,
  start_sec: int64,
  duration_sec: int64,
  availability_tag: text,
  resources: message(resourceIds),
  confirmation_mode: text,
};

const slot: Shape = {
  ...changedSlot,
  merchant_id: required(text),
  service_id: required(text),
  start_sec: required(int64),
  duration_sec: required(int64),
};

const user: Shape = {
  user_id: text,
  given_name: text,
  family_name: text,
  telephone: text,
  email: text,
  address: message(address),
  language_code: text,
};

const payment: Shape = {
  prepayment_status: text,
  price: message(price),
  tax_amount: message(price),
  payment_processed_by: text,
  payment_transaction_id: text,
};

export const requests = {
  HealthCheck: {},
  BatchAvailabilityLookup: {
    merchant_id: required(text),
    slot_time: required({ type: 'list', of: slotTime }),
  },
  CreateBooking: {
    slot: required(message(slot)),
    user_information: required(
      message({
        ...user,
        user_id: required(text),
        given_name: required(text),
        family_name: required(text),
        telephone: required(text),
        email: required(text),
      }),
    ),
    idempotency_token: required(text),
    payment_information: message(payment),
    additional_request: text,
    offer_id: text,
    lease_ref: message({ lease_id: text }),
  },
  UpdateBooking: {
    booking: required(
      message({
        booking_id: required(text),
        slot: message(changedSlot),
        user_information: message(user),
        status: text,
        payment_information: message(payment),
      }),
    ),
  },
  GetBookingStatus: { booking_id: required(text) },
  ListBookings: { user_id: required(text) },
} as const satisfies Record<string, Shape>;

export type Method = keyof typeof requests;
