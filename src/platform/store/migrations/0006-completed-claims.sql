-- Runs with programs from 0006 on.
-- An index that also holds unfinished claims tempts the planner, before it has statistics, to find them all by
-- `completed_at is null` for each claim that is completed.
drop index idempotency_claims_completed;
create index idempotency_claims_completed on idempotency_claims (completed_at) where completed_at is not null;
