-- Runs with programs from 0013 on.
-- One row a hand-off that was accepted for delivery (202). The states and moves stand at the top of
-- src/handoff/accepted.ts.
create table handoffs (
  -- Chosen at acceptance: of the record in the CRM too.
  external_id   uuid        primary key,
  -- Order of acceptance.
  sequence      bigint      not null generated always as identity,
  type          text        not null check (type in ('quote', 'booking')),
  status        text        not null check (status in ('accepted', 'created', 'failed', 'cancelled')),
  -- Who handed it off: also what the record says of its maker. The person is as X-Actor named them.
  consumer_id   text        not null,
  consumer_name text,
  actor         text,
  -- The request that it was accepted with.
  request_id    text        not null,
  trip_id       uuid        not null,
  -- What the record is made of, the details digit for digit; null once it is not needed any more.
  member_id     uuid,
  name          text,
  source        text,
  details       text,
  size          integer     not null generated always as (coalesce(octet_length(details), 0)) stored,
  -- The CRM's own id of the record.
  native_id     text,
  -- Why the CRM refused it: JSON text of code, detail and errors.
  problem       text,
  -- Tries to deliver it, and those in a row that failed while the CRM took others.
  attempts      integer     not null default 0,
  troubles      integer     not null default 0,
  -- A call that creates the record was sent, and nobody knows yet that it had no effect.
  may_exist     boolean     not null,
  -- Grows with every try; only the one with the current fence stores how it ended.
  fence         bigint      not null,
  -- Until then nobody else may try it.
  lease_until   timestamptz not null,
  -- When it is tried again that is in trouble, or looked for that was cancelled.
  due_at        timestamptz not null,
  accepted_at   timestamptz not null,
  completed_at  timestamptz
);
create unique index handoffs_sequence on handoffs (sequence);
-- What is looked for every few seconds: no rows most of the time.
create index handoffs_waiting on handoffs (sequence) where status = 'accepted';
create index handoffs_to_remove on handoffs (due_at) where status = 'cancelled' and may_exist;
create index handoffs_status on handoffs (status, sequence);
create index handoffs_trip on handoffs (trip_id, sequence);
create index handoffs_member on handoffs (member_id) where member_id is not null;
create index handoffs_completed on handoffs (completed_at) where completed_at is not null;
