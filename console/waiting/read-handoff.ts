import type { AcceptedHandoff, HistoryEntry, Quote } from '@handoff-gateway/client';
import { type Problem, problemFrom } from '../shared/api.ts';
import { type AtAGlance, glance } from '../shared/guess.ts';
import { fieldOf, parseDigits } from '../shared/json-text.ts';
import { includedIn, type Named } from '../shared/members.ts';
import { read, type Session, withQuery } from '../shared/session.ts';
import { detailsIn } from './handoff-parts.tsx';

export interface Subject {
  name: string;
  source: string;
  memberId: string | null;
  member: Named | null | undefined;
  tripId: string | null;
  /** JSON as it was sent. */
  details: string | undefined;
  facts: AtAGlance;
  maker: Quote['created_by'];
}

export interface Life {
  handoff: AcceptedHandoff;
  /** The oldest first. */
  history: readonly HistoryEntry[];
  /** Undefined where the hand-off keeps it no longer, and no record has it. */
  subject: Subject | undefined;
  /** Why its record could not be read; undefined where that was not needed. */
  unread?: Problem;
}

/** A hand-off, what happened to it, and what it is of. */
export async function readLife(session: Session, id: string, known: Subject | undefined): Promise<Life> {
  const [found, { data: history }] = await Promise.all([
    readHandoff(session, id, known),
    read<{ data: HistoryEntry[] }>(session, `/v1/handoffs/${id}/history`),
  ]);
  return { ...found, history };
}

/** A hand-off, and what it is of: `known` while the hand-off keeps that no longer, else its record. */
async function readHandoff(
  session: Session,
  id: string,
  known: Subject | undefined,
): Promise<Omit<Life, 'history'>> {
  const include = includedIn(session, 'quotes', 'bookings');
  const { text } = await session.send(withQuery(`/v1/handoffs/${id}`, { include }));
  const handoff = JSON.parse(text) as AcceptedHandoff;
  const isOfRecord = handoff.request === null && handoff.status === 'created' && known === undefined;
  if (!isOfRecord) return { handoff, subject: subjectOf(handoff, text) ?? known };
  return readRecord(session, handoff, include).then(
    (subject) => ({ handoff, subject }),
    (error: unknown) => ({ handoff, subject: undefined, unread: problemFrom(error) }),
  );
}

function subjectOf({ request, member }: AcceptedHandoff, text: string): Subject | undefined {
  if (request === null) return undefined;
  const { result, member_id, trip_id, created_by } = request;
  const details = detailsIn(text);
  return {
    ...{ name: result.name, source: result.source, memberId: member_id, tripId: trip_id, member },
    details,
    // Text: every digit of an amount counts.
    facts: glance(details === undefined ? null : parseDigits(details)),
    maker: created_by,
  };
}

async function readRecord(
  { send }: Session,
  { type, external_id }: AcceptedHandoff,
  include: 'member' | undefined,
): Promise<Subject> {
  const answer = await send(withQuery(`/v1/${type}s/${external_id}`, { include }));
  const record = parseDigits(answer.text) as Partial<Quote>;
  return {
    name: record.name || `Unnamed ${type}`,
    source: record.source ?? '',
    memberId: record.member_id ?? null,
    member: record.member,
    tripId: record.trip_id ?? null,
    details: fieldOf(answer.text, 'details'),
    facts: glance(record),
    maker: record.created_by ?? null,
  };
}
