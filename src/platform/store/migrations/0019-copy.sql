-- Runs with programs from 0017 on.
-- The copy of the CRM's records: see src/copy/copy.ts. It can be dropped at any time, and is filled again.
create table copied_records (
  resource text not null,
  -- The CRM's own id; `?` and the External ID where the outcome of a creation is not known.
  native_id text not null,
  external_id text collate "C" not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- What lists are filtered by, in lower case, as the CRM compares it.
  trip_id text,
  member_id text,
  consumer_id text,
  status text,
  email text,
  -- The CRM's own id of the member, by which the record follows it.
  member_native_id text,
  -- All fields, JSON; details in it are text, digit for digit.
  content text not null,
  is_deleted boolean not null default false,
  -- What the CRM has may differ: it is asked, until the row is read again.
  is_stale boolean not null default false,
  -- When a write of the service was last noted here, and when the reader last stored the row.
  written_at timestamptz not null default '-infinity',
  seen_at timestamptz not null default '-infinity',
  primary key (resource, native_id)
) with (fillfactor = 85);
create index copied_records_external_id on copied_records (resource, external_id);
create index copied_records_created on copied_records (resource, created_at, external_id) where not is_deleted;
create index copied_records_updated on copied_records (resource, updated_at, external_id) where not is_deleted;
create index copied_records_trip on copied_records (resource, trip_id, created_at, external_id) where not is_deleted;
create index copied_records_member on copied_records (resource, member_id, created_at, external_id) where not is_deleted;
create index copied_records_consumer on copied_records (resource, consumer_id, created_at, external_id) where not is_deleted;
create index copied_records_status on copied_records (resource, status, created_at, external_id) where not is_deleted;
create index copied_records_email on copied_records (resource, email, created_at, external_id) where not is_deleted;
create index copied_records_link on copied_records (member_native_id) where member_native_id is not null;
create index copied_records_stale on copied_records (resource, written_at) where is_stale;
create index copied_records_deleted on copied_records (written_at) where is_deleted;

-- One row, there once a reader keeps the copy.
create table copy_state (
  only_row boolean primary key default true check (only_row),
  -- Of the fields that the copy was made with.
  fields text not null,
  -- The reader's last turn that kept the copy: where others came between, changes are missing from it.
  fence bigint not null,
  -- Places up to which it is filled, JSON by resource; null: it is filled.
  places text,
  -- When the last poll began that came to its end and is in the copy.
  kept_through timestamptz
);
