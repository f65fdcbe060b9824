-- Runs with programs from 0017 on.
-- The record that a keyed request is about, and the person who sent it, as X-Actor named them; null for claims of older programs.
alter table idempotency_claims
  add column record_id uuid,
  add column actor     text;
create index idempotency_claims_record on idempotency_claims (record_id, created_at) where record_id is not null;

-- The states that a reservation has been in, oldest first: a list of {step, at}.
alter table reservations add column steps jsonb not null default '[]';
