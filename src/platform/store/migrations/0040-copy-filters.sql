-- Runs with programs from 0017 on.
alter table copied_records
  -- What lists are filtered by beside the columns: fields that a mapping adds, a short hash of each name and value, with spaces
  -- between.
  add column filters text,
  -- Of a stale row: the poll as of which it is right, with every acknowledged write of the service; -infinity: none.
  add column right_at timestamptz not null default '-infinity';
create index copied_records_filters on copied_records using gin (string_to_array(filters, ' '))
  where not is_deleted and filters is not null;
create index copied_records_right on copied_records (resource, right_at) where is_stale;
