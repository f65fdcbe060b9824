-- Runs with programs from 0017 on.
-- Requests with valid credentials by day and consumer, as each process has counted them since it started.
create table consumer_requests (
  consumer_id text not null,
  -- In UTC.
  day date not null,
  -- Empty: the sum of processes, once the day is over.
  process text not null,
  -- Also 1xx and 3xx.
  answers_2xx bigint not null,
  answers_4xx bigint not null,
  answers_5xx bigint not null,
  primary key (consumer_id, day, process)
);
create index consumer_requests_day on consumer_requests (day);
