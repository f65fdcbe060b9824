-- Runs with programs from 0003 on.
-- One row a reservation: what was ordered, how far it is, and who drives it. The states and moves stand at the top of
-- src/reservations/steps.ts.
create table reservations (
  -- Also the External ID of its booking in the CRM.
  id             uuid        primary key,
  state          text        not null,
  -- Where it was before somebody asked to cancel it.
  state_before   text,
  -- Why a person has to look at it; null while nobody has to.
  attention      text,
  -- As consumers see it.
  status         text        not null generated always as (case
    when attention is not null then 'needs_attention'
    when state = 'confirmed' or (state = 'cancelling_table' and state_before = 'confirmed') then 'confirmed'
    when state in ('writing_cancellation', 'cancelled') then 'cancelled'
    when state in ('refused', 'failed') then 'failed'
    else 'pending' end) stored,
  -- What was ordered, and the details digit for digit.
  ordered        jsonb       not null,
  details        text,
  -- Name of the partner's connector, and the idempotency token of the table.
  partner        text        not null,
  table_token    uuid        not null,
  -- What the partner knows the table by, and how it stood when we last heard.
  table_reference text,
  table_status   text,
  -- Why there is none: code, detail and the partner's word.
  refusal        jsonb,
  -- The keyed request that is answered when this is done; null once it is.
  owed           jsonb,
  -- Grows with every driver; only the one with the current fence moves it on.
  fence          bigint      not null,
  -- Until then nobody else may drive it.
  lease_until    timestamptz not null,
  -- From then on the job takes it up, and how often an attempt at this step has failed.
  next_attempt_at timestamptz not null,
  attempts       integer     not null default 0,
  created_at     timestamptz not null,
  updated_at     timestamptz not null
);
-- What the job looks for every few seconds: few rows at any time.
create index reservations_unfinished on reservations (next_attempt_at)
  where state not in ('confirmed', 'cancelled', 'refused', 'failed');
create index reservations_status on reservations (status, created_at);
-- Two reservations that took one table for theirs would both be confirmed with it.
create unique index reservations_table on reservations (table_reference) where table_reference is not null;
