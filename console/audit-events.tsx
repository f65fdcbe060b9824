import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { inShort, type Permission } from './consumers/consumer.ts';
import { isObject } from './shared/json-text.ts';
import { pagesAt, usePages } from './shared/load.ts';
import { Choice, type Column, Field, Id, List, NoMatch } from './shared/parts.tsx';
import { withQuery } from './shared/session.ts';
import { Ago, dateAndTime } from './shared/time.tsx';
import { labelOf } from './shared/words.ts';

interface AuditEvent {
  id: string;
  timestamp: string;
  action: string;
  actor: { type: string; id: string; name: string | null; person?: string | null };
  target: { id: string; name: string | null };
  address: string | null;
  user_agent: string | null;
  request_id: string | null;
  changes: { field: string; from: unknown; to: unknown }[];
}

const actions: [value: string, text: string][] = [
  ['', 'All'],
  ['consumer.created', 'Created'],
  ['consumer.updated', 'Updated'],
  ['consumer.rotated', 'Rotated'],
  ['consumer.disabled', 'Disabled'],
  ['consumer.enabled', 'Enabled'],
  ['consumer.revoked', 'Revoked'],
];

const columns: Column<AuditEvent>[] = [
  { title: 'When', cell: ({ timestamp }) => <Ago at={timestamp} /> },
  { title: 'Action', cell: ({ action }) => <code>{action}</code> },
  {
    title: 'Consumer',
    cell: ({ target }) => <span title={target.id}>{target.name ?? target.id}</span>,
  },
  {
    title: 'By',
    cell: ({ actor }) => (
      <>
        <span title={actor.id}>{actor.person ?? actor.name ?? actor.id}</span>
        <br />
        <span class="quiet">{actor.type.replaceAll('_', ' ')}</span>
      </>
    ),
  },
  {
    title: 'Changes',
    cell: ({ changes }) => (
      <ul class="bare">
        {changes.map(({ field, from, to }) => (
          <li>
            <span class="quiet">{labelOf(field)}:</span>{' '}
            {!isEmpty(from) && (
              <>
                <s>
                  <Value of={from} />
                </s>{' '}
                →{' '}
              </>
            )}
            <Value of={to} />
          </li>
        ))}
      </ul>
    ),
  },
  {
    title: 'Address',
    cell: ({ address, user_agent }) => <span title={user_agent ?? ''}>{address ?? '–'}</span>,
  },
  { title: 'Request ID', cell: ({ request_id }) => <Id>{request_id}</Id> },
];

/** A field's value as people write it; a long one is folded. */
function Value({ of }: { of: unknown }): VNode {
  const text = inWords(of);
  if (text.length <= mostShown) return <>{text}</>;
  return (
    <details>
      <summary>{text.slice(0, mostShown)}…</summary>
      {text}
    </details>
  );
}

const mostShown = 240;

function inWords(value: unknown): string {
  if (isEmpty(value)) return '–';
  if (Array.isArray(value)) return value.map(inWords).join(isPermission(value[0]) ? '; ' : ', ');
  if (isPermission(value)) return inShort(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return value.toLocaleString('en');
  if (typeof value !== 'string') return JSON.stringify(value);
  return isMoment.test(value) ? dateAndTime(Date.parse(value)) : value;
}

const isMoment = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

function isEmpty(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.length === 0);
}

function isPermission(value: unknown): value is Permission {
  return isObject(value) && typeof value['resource'] === 'string' && Array.isArray(value['actions']);
}

/** Who changed which consumer, and how. */
export function AuditEvents(): VNode {
  const [action, setAction] = useState('');
  const [typed, setTyped] = useState('');
  const [target, setTarget] = useState('');
  const path = withQuery('/v1/admin/audit-events', { action, target_id: target });
  const pages = usePages<AuditEvent>(path, pagesAt(path), 10_000);
  const submit = (event: Event) => {
    event.preventDefault();
    setTarget(typed.trim());
  };
  const showAll = () => {
    setAction('');
    setTyped('');
    setTarget('');
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <Choice label="Action" value={action} options={actions} onChange={setAction} />
        <Field label="Consumer" value={typed} onInput={setTyped} placeholder="con_…" />
        <button class="plain">Filter</button>
      </form>
      <List
        caption="Changes of consumers"
        pages={pages}
        columns={columns}
        keyOf={({ id }: AuditEvent) => id}
        empty={
          action || target ? <NoMatch what="change" showAll={showAll} /> : <p>No consumer was changed yet.</p>
        }
      />
    </>
  );
}
