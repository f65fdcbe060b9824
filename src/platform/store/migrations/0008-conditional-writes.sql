-- Runs with programs from 0008 on.
-- The record that an unconditional change writes, as `<resource> <External ID>`; null for every other claim. A
-- conditional write looks here for changes under way before it reads the record.
alter table idempotency_claims add column overwrites text;
create index idempotency_claims_overwriting on idempotency_claims (overwrites)
  where overwrites is not null and completed_at is null;

-- Records that a conditional write has for itself, from before it reads the record until its claim is completed. The
-- rules stand at the top of src/idempotency/leases-table.ts.
create table record_leases (
  record      text        primary key,
  -- The claim that has it.
  consumer_id text        not null,
  key         uuid        not null,
  fence       bigint      not null,
  leased_until timestamptz not null
);
