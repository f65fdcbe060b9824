-- Runs with programs from 0004 on.
-- One row a webhook that was accepted. The states and moves stand at the top of src/webhooks/processor.ts.
create table webhook_events (
  -- As the sender named it: a repeat has the same.
  webhook_id   text        primary key,
  -- Order of arrival, between events of one moment.
  sequence     bigint      not null generated always as identity,
  type         text        not null,
  -- When it happened, as the sender tells; it decides the order in which events of a member are applied.
  event_at     timestamptz not null,
  -- External ID; null for types that the service does not know.
  member_id    uuid,
  -- The signed body as it came.
  payload      text        not null,
  state        text        not null check (state in ('received', 'processed', 'ignored', 'dead')),
  attempts     integer     not null default 0,
  -- While received: when it may be taken (again); a process that has taken it keeps others away until then.
  due_at       timestamptz not null,
  -- What kind of error the last attempt ended with; no text of others, which could hold personal data.
  last_error   text,
  received_at  timestamptz not null,
  finished_at  timestamptz,
  -- A later event of the member had been applied before it.
  came_late    boolean     not null default false
);
create index webhook_events_waiting on webhook_events (member_id, event_at, sequence) where state = 'received';
create index webhook_events_member on webhook_events (member_id, event_at) where state = 'processed';
create index webhook_events_listed on webhook_events (sequence);
create index webhook_events_received_at on webhook_events (received_at);
