-- Runs with programs from 0020 on.
-- Answers beyond a few KiB are stored here, compressed by the program (so not by PostgreSQL again). To an older program such
-- an answer looks erased: it does not execute the request again.
alter table idempotency_claims add column response_compressed bytea;
alter table idempotency_claims alter column response_compressed set storage external;
-- Orders unfinished claims by their last look-up in the CRM, so that those whose look-up fails do not delay others.
drop index idempotency_claims_unfinished;
create index idempotency_claims_unfinished on idempotency_claims (lease_until) where completed_at is null;
create index reservations_refused on reservations (updated_at) where state = 'refused';
-- For recoveries of webhook endpoints.
create index events_recorded_at on events (recorded_at, sequence);
-- The oldest delivery of each endpoint that waits.
create index deliveries_pending on deliveries (endpoint_id, number) where status = 'pending';
