-- Runs with programs from 0033 on.
-- Failed hand-offs whose records may exist are looked for like cancelled and rejected ones.
drop index handoffs_to_remove;
create index handoffs_unsettled on handoffs (due_at) where status in ('cancelled', 'rejected', 'failed') and may_exist;
