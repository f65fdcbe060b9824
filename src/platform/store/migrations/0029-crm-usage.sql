-- Runs with programs from 0017 on.
-- The CRM's metered calls by hour, operation and consumer, as each process has counted them since it started.
create table crm_usage (
  hour timestamptz not null,
  -- `service`: the gateway's own.
  consumer_id text not null,
  operation text not null,
  -- Empty: the sum of processes, once the hour is long over.
  process text not null,
  -- A call that several requests share is charged to each in equal parts.
  calls double precision not null,
  requests bigint not null,
  primary key (hour, consumer_id, operation, process)
);
