-- Runs with programs from 0017 on.
-- Lists of what has changed of one consumer: others may have changed millions of records since it made its last one.
create index copied_records_consumer_updated on copied_records (resource, consumer_id, updated_at, external_id)
  where not is_deleted and consumer_id is not null;
