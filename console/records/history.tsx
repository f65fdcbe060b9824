import type { HistoryEntry } from '@handoff-gateway/client';
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { parseDigits } from '../shared/json-text.ts';
import { useLoad } from '../shared/load.ts';
import { crmName } from '../shared/page-facts.ts';
import { LoadProblem } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { Ago, dateAndTime, dayInWords } from '../shared/time.tsx';
import { labelOf } from '../shared/words.ts';
import { useConsumerName } from './maker.tsx';

interface HistoryProps {
  /** Path of the record in the API. */
  path: string;
  /** What it is in a sentence: `quote`. */
  what: string;
}

/** More are shown when they are asked for. */
const shownAtFirst = 30;

/** What happened to a record, in sentences, the newest first. */
export function History({ path, what }: HistoryProps): VNode | null {
  const loaded = useLoad(`${path}/history`, async ({ send }) => {
    // Digits count in what changed, too.
    const answer = parseDigits((await send(`${path}/history`)).text) as { data: HistoryEntry[] };
    return answer.data.toReversed();
  });
  const { data, problem } = loaded;
  // Also where the service has no histories; where there is no record, the page says so.
  if (problem?.status === 404) return null;
  return (
    <section class="panel history" aria-label="History">
      <h2>History</h2>
      <LoadProblem of={loaded} what="Load the history again" />
      {data === undefined && problem === undefined && <p class="quiet">Loading the history…</p>}
      {data && <Entries entries={data} what={what} />}
      {data?.some(({ kind }) => kind === 'accepted' || kind === 'awaiting_approval') && (
        <p>
          <a href={`#/handoffs/${path.split('/').at(-1)}`}>Show the hand-off</a>
        </p>
      )}
    </section>
  );
}

function Entries({ entries, what }: { entries: readonly HistoryEntry[]; what: string }): VNode {
  if (entries.length === 0) return <p class="quiet">This {what} has no history yet.</p>;
  return <Timeline entries={entries.map((entry) => ({ entry, what }))} />;
}

interface TimelineEntry {
  entry: HistoryEntry;
  /** Noun in a sentence: `quote`. */
  what: string;
  /** Which one, where the page is about several. */
  of?: { name: string; address: string };
}

/** Entries in sentences, in the order in which they are given. */
export function Timeline({ entries }: { entries: readonly TimelineEntry[] }): VNode {
  const [count, show] = useState(shownAtFirst);
  return (
    <>
      <ol class="timeline">
        {entries.slice(0, count).map((one) => (
          <Entry {...one} />
        ))}
      </ol>
      {entries.length > count && (
        <button type="button" class="plain" onClick={() => show(entries.length)}>
          Show all {entries.length}
        </button>
      )}
    </>
  );
}

function Entry({ entry, what, of }: TimelineEntry): VNode {
  const { at, kind, changes } = entry;
  return (
    <li class={toneOf(kind)}>
      {of && (
        <p class="quiet">
          <a href={of.address}>{of.name}</a>
        </p>
      )}
      <p>{sentenceOf(entry, what)}</p>
      {kind === 'updated' &&
        changes &&
        changes.map((one) => (
          <p>
            <Change change={one} />
          </p>
        ))}
      <p class="hint">
        <Ago at={at} />
      </p>
    </li>
  );
}

function toneOf(kind: string): string {
  if (['created', 'approved', 'restored'].includes(kind)) return 'good';
  return ['failed', 'rejected', 'delivery_failed', 'deleted', 'cancelled'].includes(kind) ? 'bad' : '';
}

type Sentence = (entry: HistoryEntry, what: string) => ComponentChildren;

/** What each kind of entry says, with who did it where that is known. */
const sentences: Readonly<Record<string, Sentence>> = {
  requested: ({ by, endpoint }, what) => (
    <>
      <Doer by={by} /> {asked(endpoint, what)}
    </>
  ),
  awaiting_approval: () => 'Waiting for approval',
  approved: ({ by }) => byWhom('Approved', by),
  rejected: ({ by }) => byWhom('Rejected', by),
  accepted: ({ by }) => byWhom('Accepted and saved for later', by),
  created: ({ by }, what) =>
    byWhom(what === 'reservation' ? 'Table and booking confirmed' : `Created in ${crmName}`, by),
  updated: ({ by, changes }) => byWhom(changes ? 'Changed' : "Changed, but we don't know which fields", by),
  step: ({ changes }) => stepOf(changes?.[0]?.to),
  delivered: ({ endpoint }) => (
    <>
      Event delivered to <Endpoint id={endpoint} />
    </>
  ),
  delivery_failed: ({ endpoint }) => (
    <>
      Event not delivered to <Endpoint id={endpoint} />
    </>
  ),
  failed: () => 'Failed',
  cancelled: ({ by }) => byWhom('Cancelled', by),
  deleted: ({ by }) => byWhom(`Deleted in ${crmName}`, by),
  restored: ({ by }) => byWhom(`Restored in ${crmName}`, by),
};

/** Kinds that a newer service adds are shown by their name. */
function sentenceOf(entry: HistoryEntry, what: string): ComponentChildren {
  return sentences[entry.kind]?.(entry, what) ?? byWhom(labelOf(entry.kind), entry.by);
}

function byWhom(what: string, by: HistoryEntry['by']): ComponentChildren {
  return by === null ? (
    what
  ) : (
    <>
      {what} by <Doer by={by} />
    </>
  );
}

/** The person, where the consumer said who it is, and the consumer. */
export function Doer({ by }: Pick<HistoryEntry, 'by'>): VNode {
  const nameOf = useConsumerName();
  if (by === null) return <>A consumer</>;
  const consumer = nameOf(by);
  return by.actor === null ? (
    <strong>{consumer}</strong>
  ) : (
    <>
      <strong>{by.actor}</strong> (<bdi>{consumer}</bdi>)
    </>
  );
}

const verbs: Readonly<Record<string, string>> = { POST: 'create', PATCH: 'change', DELETE: 'delete' };

/** What was asked for, of the operation's method and path. */
function asked(endpoint: string | null, what: string): string {
  const [method = '', path = ''] = (endpoint ?? '').split(' ');
  if (path.endsWith('/handoff')) return 'handed it off';
  if (path.startsWith('/v1/reservations'))
    return `asked to ${method === 'POST' ? 'reserve' : 'cancel'} the table`;
  return `asked to ${verbs[method] ?? 'write'} this ${what}`;
}

const steps: Readonly<Record<string, string>> = {
  making_booking: `Creating the booking in ${crmName}`,
  booking_table: 'Booking the table',
  writing_outcome: `Writing the outcome to ${crmName}`,
  undoing: 'Removing the booking',
  pending: 'Waiting for the restaurant to decide',
  confirmed: 'Still confirmed; the restaurant refused to cancel',
  cancelling_table: 'Cancelling the table',
  writing_cancellation: `Writing the cancellation to ${crmName}`,
};

function stepOf(step: unknown): string {
  const name = typeof step === 'string' ? step : 'unknown';
  return steps[name] ?? labelOf(name);
}

function Change({
  change: { field, from, to },
}: {
  change: NonNullable<HistoryEntry['changes']>[number];
}): VNode {
  const label = <span class="quiet">{labelOf(field)}</span>;
  if (from === undefined && to === undefined) return label;
  if (from === undefined)
    return (
      <>
        {label} to <strong>{inShort(to)}</strong>
      </>
    );
  return (
    <>
      {label} from <s>{inShort(from)}</s> to <strong>{inShort(to)}</strong>
    </>
  );
}

/** The longest value that stands in a sentence. */
const longest = 200;

function inShort(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'nothing';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  const text = typeof value === 'string' ? inWords(value) : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

function inWords(text: string): string {
  const moment = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(moment) ? (dayInWords(text) ?? text) : dateAndTime(moment);
}

/** One of the consumer's own webhook endpoints. */
export function Endpoint({ id }: { id: string | null }): VNode {
  const { can } = useSession();
  if (id === null || !can('webhooks', 'read')) return <>a webhook endpoint</>;
  return <a href={`#/events/endpoints/${id}`}>a webhook endpoint</a>;
}
