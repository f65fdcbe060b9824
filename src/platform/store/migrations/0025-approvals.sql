-- Runs with programs from 0017 on.
-- Hand-offs that wait for the approval of another consumer, and those whose offer ends. An older program leaves the former
-- alone, and delivers the latter whenever it can.
alter table handoffs drop constraint handoffs_status_check;
alter table handoffs add constraint handoffs_status_check
  check (status in ('awaiting_approval', 'accepted', 'created', 'failed', 'cancelled', 'rejected'));
alter table handoffs
  -- From then on nothing is made.
  add column valid_until timestamptz,
  -- Null where none is needed. The reason is that of a rejection; who decided is JSON text of consumer_id, consumer_name and
  -- actor.
  add column approval    text check (approval in ('pending', 'approved', 'rejected', 'expired')),
  add column decided_by  text,
  add column decided_at  timestamptz,
  add column reason      text;
-- Of each consumer, for the limits.
create index handoffs_awaiting on handoffs (consumer_id, accepted_at) where status = 'awaiting_approval';
-- What ends, looked for every few seconds.
create index handoffs_ending on handoffs (valid_until)
  where valid_until is not null and status in ('awaiting_approval', 'accepted');
-- Rejected ones whose records may exist are removed like cancelled ones.
drop index handoffs_to_remove;
create index handoffs_to_remove on handoffs (due_at) where status in ('cancelled', 'rejected') and may_exist;
