-- Runs with programs from 0017 on.
-- `attempts` is the fence of the lease, so it only grows: this is how many came before the last replay.
alter table webhook_events add column attempts_before integer not null default 0;
