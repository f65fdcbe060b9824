-- Runs with programs from 0017 on.
-- What a keyed request may make, where that is several records: each its type and External ID. Null for all others, and for claims of
-- older programs.
alter table idempotency_claims add column records text[];
create index idempotency_claims_records on idempotency_claims using gin (records) where records is not null;
