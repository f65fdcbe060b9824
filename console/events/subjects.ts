import { Failure } from '../shared/api.ts';
import { type AtAGlance, glance } from '../shared/guess.ts';
import { parseDigits } from '../shared/json-text.ts';
import { useReads } from '../shared/load.ts';
import type { Named } from '../shared/members.ts';
import { recall } from '../shared/memory.ts';
import { isOutage } from '../shared/outage.ts';
import { type Session, useSession } from '../shared/session.ts';
import { readHandoff } from '../waiting/read-handoff.ts';

export interface FeedEvent {
  id: string;
  type: string;
  occurred_at: string;
  resource: { type: string; id: string };
  /** JSON text, digit for digit. */
  data: string;
  member?: Named | null;
}

/** Facts about an event's record, from the event or from another one about the same record. */
export interface Subject {
  name: string;
  memberId: string | null;
  /** Null where it is not known now; undefined where the gateway was not asked. */
  member: Named | null | undefined;
  facts: AtAGlance;
}

/** A tab that looks at events for a day keeps no more, beside what it shows. */
const mostKept = 500;

/**
 * Names events' records. A hand-off's own events and deletions have no name in them, so another event of the same record gives it,
 * else the hand-off is read once. Undefined where nothing names it, or not yet.
 */
export function useSubjects(events: readonly FeedEvent[]): (event: FeedEvent) => Subject | undefined {
  const session = useSession();
  const known = recall(session.memory, 'event-subjects', () => new Map<string, Subject | undefined>());
  const named = new Map<string, Subject>();
  for (const event of events) {
    const subject = subjectIn(event);
    if (subject && !named.has(event.resource.id)) named.set(event.resource.id, subject);
  }
  const readOne = async (id: string) => {
    const subject = await readSubject(session, id);
    const isShown = (key: string) => events.some(({ resource }) => resource.id === key);
    const oldest = known.size < mostKept ? undefined : [...known.keys()].find((key) => !isShown(key));
    if (oldest !== undefined) known.delete(oldest);
    known.set(id, subject);
  };
  const missing = events
    .filter(({ type, resource: { id } }) => type.startsWith('handoff.') && !named.has(id) && !known.has(id))
    .map(({ resource: { id } }): [string, () => Promise<void>] => [id, () => readOne(id)]);
  useReads(new Map(missing));
  return ({ resource: { id } }) => named.get(id) ?? known.get(id);
}

/** Undefined where its data has no name. */
function subjectIn({ data, member }: FeedEvent): Subject | undefined {
  // Text: every digit of an amount counts.
  const values = parseDigits(data) as Record<string, unknown>;
  const names = [values['name'], values['first_name'], values['last_name']];
  const parts = names.filter((part) => typeof part === 'string' && part !== '');
  if (parts.length === 0) return undefined;
  const memberId = values['member_id'];
  return {
    name: parts.join(' '),
    memberId: typeof memberId === 'string' ? memberId : null,
    member,
    facts: glance(values),
  };
}

async function readSubject(session: Session, id: string): Promise<Subject | undefined> {
  const { subject, unread } = await readHandoff(session, id, undefined);
  if (unread && isOutage(unread)) throw new Failure(unread);
  if (subject === undefined) return undefined;
  const { name, memberId, member, facts } = subject;
  return { name, memberId, member: member ?? undefined, facts };
}
