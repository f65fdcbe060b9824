-- Runs with programs from 0017 on.
-- External IDs whose record no longer has them: deleted at the end of the current poll, unless another record has the id.
create table pending_deletions (
  resource text not null,
  external_id text not null,
  -- As in known_records. Null content: the record had no event.
  consumer_id text,
  content text,
  lost_at timestamptz not null,
  primary key (resource, external_id)
);

-- An External ID belongs to one record at a time: the one that was last read with it.
update known_records k set is_deleted = true
where not is_deleted and exists (
  select from known_records other
  where other.resource = k.resource and other.external_id = k.external_id and not other.is_deleted
    and (other.seen_at, other.native_id) > (k.seen_at, k.native_id)
);

-- When the record was first found to be missing in the CRM without a deletion: the next poll looks it up.
alter table known_records add column missing_since timestamptz;
create index known_records_missing on known_records (missing_since) where missing_since is not null;

-- For the daily comparison of known ids with those of the CRM, in the order of native ids.
alter table change_reader
  -- When the last comparison began.
  add column compared_at timestamptz not null default now(),
  -- Position of the current comparison, JSON; null: none is in progress.
  add column compared_to text;
create index known_records_in_order on known_records (resource, native_id collate "C") where not is_deleted;
create index copied_records_in_order on copied_records (resource, native_id collate "C") where not is_deleted;
