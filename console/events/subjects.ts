import { type AtAGlance, glance } from '../shared/guess.ts';
import { parseDigits } from '../shared/json-text.ts';
import type { Named } from '../shared/members.ts';

export interface FeedEvent {
  id: string;
  type: string;
  occurred_at: string;
  resource: { type: string; id: string };
  /** JSON text, digit for digit. */
  data: string;
  member?: Named | null;
  /** JSON text of a hand-off's record; undefined for all else. */
  record: string | undefined;
}

/** Facts about an event's record, from the event or from another one about the same record. */
export interface Subject {
  /** Undefined where nothing names it. */
  name: string | undefined;
  memberId: string | null;
  /** Null where it is not known now; undefined where the gateway was not asked. */
  member: Named | null | undefined;
  facts: AtAGlance;
}

/** Names events' records. A deletion has no name in it, so another event of the same record gives it. */
export function nameSubjects(events: readonly FeedEvent[]): (event: FeedEvent) => Subject {
  const own = new Map(events.map((event) => [event, subjectIn(event)]));
  const named = new Map<string, Subject>();
  for (const [{ resource }, subject] of own)
    if (subject.name !== undefined && !named.has(resource.id)) named.set(resource.id, subject);
  return (event) => named.get(event.resource.id) ?? own.get(event) ?? subjectIn(event);
}

function subjectIn({ data, record = data, member }: FeedEvent): Subject {
  // Text: every digit of an amount counts.
  const values = (parseDigits(record) ?? {}) as Record<string, unknown>;
  const names = [values['name'], values['first_name'], values['last_name']];
  const parts = names.filter((part) => typeof part === 'string' && part !== '');
  const memberId = values['member_id'];
  return {
    name: parts.join(' ') || undefined,
    memberId: typeof memberId === 'string' ? memberId : null,
    member,
    facts: glance(values),
  };
}
