import {
  entry,
  type FoundEntry,
  type HistoryReader,
  type HistorySource,
  type HistorySubject,
  mostEntries,
} from '../../api/history.ts';
import { type KnownRequest, requestsAbout } from '../../api/idempotency/requests-about.ts';
import { isFieldVisible } from '../../platform/base/call.ts';
import { modeOf } from '../../platform/base/mode.ts';
import type { Database } from '../../platform/store/database.ts';

type Subject = HistorySubject['type'];

/** What each operation is called, and what it may be about. */
const operations: Readonly<Record<string, { endpoint: string; about: readonly Subject[] }>> = {
  createQuote: { endpoint: 'POST /v1/quotes', about: ['quote'] },
  changeQuote: { endpoint: 'PATCH /v1/quotes/:id', about: ['quote'] },
  deleteQuote: { endpoint: 'DELETE /v1/quotes/:id', about: ['quote'] },
  createBooking: { endpoint: 'POST /v1/bookings', about: ['booking'] },
  changeBooking: { endpoint: 'PATCH /v1/bookings/:id', about: ['booking'] },
  deleteBooking: { endpoint: 'DELETE /v1/bookings/:id', about: ['booking'] },
  handOff: { endpoint: 'POST /api/v1/handoff', about: ['quote', 'booking', 'handoff'] },
  createReservation: { endpoint: 'POST /v1/reservations', about: ['booking', 'reservation'] },
  cancelReservation: { endpoint: 'DELETE /v1/reservations/:id', about: ['booking', 'reservation'] },
};
/** These alone make what they are about, and say of which type it is. */
const creations: readonly string[] = ['createQuote', 'createBooking'];
/** Those that make what other sources know too. */
const makers: readonly string[] = [...creations, 'handOff', 'createReservation'];

/** The permission that a subject is read by; undefined where it depends on its type. */
const collectionOf = {
  quote: 'quotes',
  booking: 'bookings',
  reservation: 'bookings',
  handoff: undefined,
} as const;

/** The keyed requests about a record, as long as the ledger keeps them. */
export function createRequestHistory(
  database: Database,
  nameOf: (consumerId: string) => string | undefined,
): HistorySource {
  return async (subject, reader) => {
    const found = await requestsAbout(database, subject.id, mostEntries);
    return (
      found
        .filter(({ operation }) => operations[operation]?.about.includes(subject.type))
        .filter(({ consumer_id }) => isOfReadersMode(consumer_id, reader))
        // Others have tried, and may not even see it.
        .filter(({ is_refused, consumer_id }) => !is_refused || consumer_id === reader.consumer.id)
        .map((request) => entryOf(request, subject, reader, nameOf))
    );
  };
}

/** What test consumers ask for is for each of them alone, and nothing that live ones ask for is for them. */
function isOfReadersMode(consumerId: string, { consumer }: HistoryReader): boolean {
  return consumerId === consumer.id || [consumerId, consumer.id].every((id) => modeOf(id) === 'live');
}

function entryOf(
  request: KnownRequest,
  { type }: HistorySubject,
  { call }: HistoryReader,
  nameOf: (consumerId: string) => string | undefined,
): FoundEntry {
  const { consumer_id, actor, operation, created_at } = request;
  const resource = collectionOf[type];
  const showsMaker = resource !== undefined && isFieldVisible(call.visibleFields?.(resource), 'created_by');
  return entry(created_at, 'requested', {
    by: showsMaker ? { consumer_id, consumer_name: nameOf(consumer_id) ?? null, actor } : null,
    endpoint: operations[operation]?.endpoint ?? null,
    ...(makers.includes(operation) && { once: 'requested' }),
    ...(!isProof(request, resource, call) && { isUnproven: true as const }),
  });
}

/** Whether it made something that the reader may see. */
function isProof(
  { operation, consumer_id, is_refused }: KnownRequest,
  resource: string | undefined,
  call: HistoryReader['call'],
): boolean {
  if (resource === undefined || is_refused || !creations.includes(operation)) return false;
  const visible = call.visible(resource);
  return visible === 'all' || visible.consumerId === consumer_id;
}
