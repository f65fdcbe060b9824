-- Runs with programs from 0001 on.
-- One row a key that a consumer sent with a write. The states and moves stand at the top of src/idempotency/ledger.ts.
create table idempotency_claims (
  consumer_id      text        not null,
  key              uuid        not null,
  -- SHA-256 over method, path, If-Match and body: another request under the same key is refused.
  fingerprint      bytea       not null,
  -- Which operation it is, so that an unfinished one can be looked into when nobody repeats it.
  operation        text        not null,
  -- Chosen before the CRM is called, so that every repeat makes the same record.
  external_id      uuid        not null,
  -- Of the record before a change, so that whoever continues can tell an interrupted change from another's.
  entity_tag_before text,
  -- Grows with every owner; only the owner with the current fence may write the result.
  fence            bigint      not null,
  -- Until then nobody else may take the claim over; in the past once its owner gave it back.
  lease_until      timestamptz not null,
  created_at       timestamptz not null,
  last_attempt_at  timestamptz not null,
  -- Set together when the outcome is final.
  completed_at     timestamptz,
  response_status  smallint,
  response_headers jsonb,
  response_body    text,
  primary key (consumer_id, key)
);
create index idempotency_claims_completed on idempotency_claims (completed_at);
create index idempotency_claims_unfinished on idempotency_claims (last_attempt_at) where completed_at is null;
