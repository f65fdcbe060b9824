-- Runs with programs from 0014 on.
-- For a hand-off that came without a key and is claimed by its body: until then the same body counts as its repeat. Null
-- for every claim of a key that a consumer sent.
alter table idempotency_claims add column repeat_until timestamptz;
