import {
  type CommonParts,
  type ControlCall,
  type ControlHandler,
  commonHandlers,
  createControlApi,
  type Handlers,
  hasValues,
} from '../../shared/control-api.ts';
import { ControlError } from '../../shared/control-error.ts';
import { type Booking, STATUSES, type Status } from '../restaurant/booking.ts';
import type { Books } from '../restaurant/books.ts';
import { changeSettings, initialSettings, type Settings } from '../restaurant/settings.ts';
import { type FaultInput, readFaultInput } from './fault-input.ts';

/** What callers must show; changed when an operator rotates it. */
export interface Credentials {
  username: string;
  password: string;
}

export interface ControlParts extends CommonParts<FaultInput> {
  books: Books;
  settings: Settings;
  credentials: Credentials;
}

/** What tests look at; flat, with the protocol's names. */
function show(booking: Booking): object {
  const { slot } = booking;
  return {
    booking_id: booking.id,
    status: booking.status,
    user_id: booking.user.user_id,
    merchant_id: slot.merchantId,
    service_id: slot.serviceId,
    start_sec: slot.startSec,
    duration_sec: slot.durationSec,
    party_size: slot.partySize,
    additional_request: booking.additionalRequest ?? null,
    idempotency_token: booking.token,
    user_information: booking.user,
    created_at: booking.createdAt,
  };
}

function listBookings({ books }: ControlParts, call: ControlCall): object[] {
  return [...books.all()].map(show).filter((shown) => hasValues(shown, call));
}

function find({ books }: ControlParts, { path }: ControlCall): Booking {
  const booking = books.get(path[1] ?? '');
  if (booking === undefined) throw new ControlError(404, `no booking ${path[1]}`);
  return booking;
}

/** The merchant decides, or does something else with a booking. */
function setStatus(parts: ControlParts, call: ControlCall): object {
  const booking = find(parts, call);
  const status = memberOf(call.body, 'status');
  if (!STATUSES.some((each) => each === status)) {
    throw new ControlError(400, `status must be one of ${STATUSES.join(', ')}`);
  }
  const changed = { ...booking, status: status as Status };
  parts.books.write(changed);
  return show(changed);
}

function changePassword({ credentials }: ControlParts, { body }: ControlCall): object {
  credentials.password = memberOf(body, 'password');
  return {};
}

function memberOf(body: unknown, name: string): string {
  const value = (body as Record<string, unknown> | undefined)?.[name];
  if (typeof value !== 'string' || value === '') throw new ControlError(400, `${name} must be a text`);
  return value;
}

function reset(parts: ControlParts, { body }: ControlCall): object {
  parts.faults.clear();
  parts.activity.reset();
  Object.assign(parts.settings, initialSettings());
  if ((body as { bookings?: boolean } | undefined)?.bookings !== false) parts.books.clear();
  return {};
}

const HANDLERS: Handlers<ControlParts> = {
  ...commonHandlers(readFaultInput),
  'GET bookings': listBookings,
  'GET bookings/*': (parts, call) => show(find(parts, call)),
  'POST bookings/*/status': setStatus,
  'GET settings': (parts) => parts.settings,
  'PATCH settings': (parts, call) => changeSettings(parts.settings, call.body),
  'POST password': changePassword,
  'POST reset': reset,
};

/** Answers `/simulator/…`, by which tests steer the partner and look into its books. No part of the protocol. */
export function createControl(parts: ControlParts): ControlHandler {
  return createControlApi(parts, HANDLERS);
}
