-- Runs with programs from 0017 on.
-- Of the content of a world's records that are not deleted. What a deleted one had is freed with it; a program before 0037 leaves it
-- until the record is forgotten, and does not count.
alter table test_worlds add column bytes bigint not null default 0;
update test_records set content = '{}', filters = '{}' where deleted_at is not null;
update test_worlds w set bytes = found.bytes from (
  select consumer_id, sum(octet_length(content)) as bytes from test_records where deleted_at is null group by consumer_id
) as found where found.consumer_id = w.consumer_id;
