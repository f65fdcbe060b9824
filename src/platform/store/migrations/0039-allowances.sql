-- Runs with programs from 0038 on.
-- Requests of consumers that have an allowance, by day, as each process has counted them since it started.
create table allowance_uses (
  consumer_id text not null,
  -- In UTC.
  day date not null,
  -- Empty: the sum of processes, once the day is over.
  process text not null,
  requests bigint not null,
  primary key (consumer_id, day, process)
);
create index allowance_uses_day on allowance_uses (day);
-- Periods of which the consumer was told that most of its allowance is used.
create table allowance_notices (
  consumer_id text not null,
  per text not null,
  -- Its first day.
  period date not null,
  primary key (consumer_id, per, period)
);
