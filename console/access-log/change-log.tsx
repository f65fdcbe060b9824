import type { AuditEvent } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { useKeptPages } from '../shared/kept.ts';
import { pagesAt } from '../shared/load.ts';
import { Choice, type Column, List, NoMatch } from '../shared/parts.tsx';
import { useParameters } from '../shared/router.ts';
import { withQuery } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { ChangeFacts, ChangeSentence } from './change-sentence.tsx';
import { useConsumerField } from './consumer-field.tsx';
import { periods, sinceNow } from './periods.ts';

const actions: [value: string, text: string][] = [
  ['', 'All'],
  ['consumer.created', 'Created'],
  ['consumer.updated', 'Changed'],
  ['consumer.rotated', 'Rotated'],
  ['consumer.disabled', 'Disabled'],
  ['consumer.enabled', 'Enabled'],
  ['consumer.revoked', 'Revoked'],
  ['handoff.approved', 'Approved'],
  ['handoff.rejected', 'Rejected'],
];

const columns: Column<AuditEvent>[] = [
  { title: 'When', cell: ({ timestamp }) => <Ago at={timestamp} /> },
  {
    title: 'Changes',
    cell: (event) => (
      <>
        <p>
          <ChangeSentence event={event} />
        </p>
        <ChangeFacts event={event} />
      </>
    ),
  },
  {
    title: 'Address',
    cell: ({ address, user_agent }) => <span title={user_agent ?? ''}>{address ?? '–'}</span>,
  },
];

const names = ['consumer_id', 'action', 'hours'] as const;
type Filters = Record<(typeof names)[number], string>;

/** Who changed which consumer, and decided on which hand-off, in sentences. */
export function ChangeLog(): VNode {
  const [asked, ask] = useParameters(names);
  const consumer = useConsumerField(asked.consumer_id);
  /** An action can be chosen while the consumer is being looked for. */
  const latest = useRef(asked);
  latest.current = asked;
  const submit = async (event: Event) => {
    event.preventDefault();
    const consumer_id = await consumer.find();
    if (consumer_id !== undefined) ask({ ...latest.current, consumer_id });
  };
  return (
    <>
      <form class="filters" role="search" onSubmit={submit}>
        {consumer.field}
        <Choice
          label="Action"
          value={asked.action}
          options={actions}
          onChange={(action) => ask({ ...asked, action })}
        />
        <Choice
          label="Time"
          value={asked.hours}
          options={periods}
          onChange={(hours) => ask({ ...asked, hours })}
        />
        <button class="primary">Filter</button>
      </form>
      <Changes
        key={JSON.stringify(asked)}
        asked={asked}
        empty={
          Object.values(asked).some(Boolean) ? (
            <NoMatch what="changes" showAll={() => ask({ consumer_id: '', action: '', hours: '' })} />
          ) : (
            <p>No changes yet.</p>
          )
        }
      />
    </>
  );
}

/** The changes that a filter leaves. */
export function Changes({ asked, empty }: { asked: Filters; empty: VNode }): VNode {
  const { consumer_id: target_id, action, hours } = asked;
  const pages = useKeptPages<AuditEvent>(
    'changes',
    (note) => (session, cursor) => {
      // It moves with the first page only: the others follow that.
      if (cursor === undefined) note.current = { since: sinceNow(hours) };
      const query = { action, target_id, ...note.current };
      return pagesAt<AuditEvent>(withQuery('/v1/admin/audit-events', query))(session, cursor);
    },
    10_000,
  );
  return (
    <List
      caption="Changes"
      pages={pages}
      columns={columns}
      keyOf={({ id }: AuditEvent) => id}
      empty={empty}
    />
  );
}
