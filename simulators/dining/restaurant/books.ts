import { type Journal, openJournal, replayJournal } from '../../shared/journal.ts';
import type { Booking } from './booking.ts';

/** All bookings, in memory and, with a file, across restarts. */
export interface Books {
  get(id: string): Booking | undefined;
  byToken(token: string): Sealed | undefined;
  all(): Iterable<Booking>;
  ofUser(userId: string): Booking[];
  nextId(): string;
  /** Writes a new state of a booking down before any answer mentions it. */
  write(booking: Booking): void;
  /** The same booking under another id, from now on. */
  rename(id: string, booking: Booking): void;
  /** Ids go on counting, so that none is ever given twice. */
  clear(): void;
  close(): void;
}

/** The booking as the answer to its token showed it: that answer never changes. */
interface Sealed {
  fingerprint: string;
  booking: Booking;
}

type Line =
  | { booking: Booking }
  | { sealed: Booking }
  | { removed: string }
  | { cleared: true }
  | { lastId: number };

const FIRST_ID = 50_000;

interface State {
  bookings: Map<string, Booking>;
  sealed: Map<string, Booking>;
  lastId: number;
}

/** A booking of a token not seen before is the answer to that token as well. */
function apply(state: State, line: Line): void {
  if ('lastId' in line) state.lastId = Math.max(state.lastId, line.lastId);
  else if ('removed' in line) state.bookings.delete(line.removed);
  else if ('cleared' in line) {
    state.bookings.clear();
    state.sealed.clear();
  } else if ('sealed' in line) state.sealed.set(line.sealed.token, line.sealed);
  else {
    const { booking } = line;
    state.bookings.set(booking.id, booking);
    if (!state.sealed.has(booking.token)) state.sealed.set(booking.token, booking);
    state.lastId = Math.max(state.lastId, Number(booking.id.slice('CO-'.length)));
  }
}

function* linesOf(state: State): Iterable<Line> {
  yield { lastId: state.lastId };
  for (const sealed of state.sealed.values()) yield { sealed };
  for (const booking of state.bookings.values()) yield { booking };
}

function open(file: string, state: State): Journal<Line> {
  let read = 0;
  replayJournal(file, (line) => {
    read += 1;
    apply(state, line as Line);
  });
  const alive = state.bookings.size + state.sealed.size;
  return openJournal(file, { read, alive, lines: () => linesOf(state) });
}

/** @throws Error when the file is damaged. */
export function openBooks(file: string | undefined): Books {
  const state: State = { bookings: new Map(), sealed: new Map(), lastId: FIRST_ID };
  const journal = file === undefined ? undefined : open(file, state);
  const keep = (line: Line): void => {
    journal?.append(line);
    apply(state, line);
  };
  return {
    get: (id) => state.bookings.get(id),
    byToken: (token) => {
      const booking = state.sealed.get(token);
      return booking && { booking, fingerprint: booking.fingerprint };
    },
    all: () => state.bookings.values(),
    ofUser: (userId) => [...state.bookings.values()].filter(({ user }) => user.user_id === userId),
    nextId: () => `CO-${state.lastId + 1}`,
    write: (booking) => keep({ booking }),
    rename: (id, booking) => {
      keep({ booking });
      keep({ removed: id });
    },
    clear: () => keep({ cleared: true }),
    close: () => journal?.close(),
  };
}
