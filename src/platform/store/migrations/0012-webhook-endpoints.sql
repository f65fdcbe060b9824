-- Runs with programs from 0012 on.
-- Where consumers want events sent to. Their signing secrets are in the secrets manager.
create table webhook_endpoints (
  id              text        primary key default 'whe_' || replace(gen_random_uuid()::text, '-', ''),
  -- Its own consumer alone sees it.
  consumer_id     text        not null,
  -- As it was given, and in the one spelling that is compared.
  url             text        not null,
  url_key         text        not null,
  -- A list of types, each perhaps with .* at its end; empty: all that the consumer may read.
  event_types     jsonb       not null,
  description     text,
  enabled         boolean     not null default true,
  disabled_reason text        check ((disabled_reason is null) = enabled),
  -- Events up to this one are not sent to it: they came before it was made or enabled.
  after_sequence  bigint      not null,
  -- Changes with the secret, so that every replica knows when to read it again.
  secret_version  bigint      not null default 0,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  -- The first failure since the last success.
  failing_since   timestamptz,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  unique (consumer_id, url_key)
);

-- One row an event and endpoint, whatever the number of attempts. The states stand at the top of
-- src/webhook-endpoints/delivery-queue.ts.
create table deliveries (
  id              text        primary key default 'dlv_' || replace(gen_random_uuid()::text, '-', ''),
  -- The order of the list, and of events of one record.
  number          bigint      not null generated always as identity,
  -- There may be none any more: the row is then deleted later.
  endpoint_id     text        not null,
  -- In the table of events, unless it is a ping.
  event_id        text        not null,
  event_type      text        not null,
  -- What the event is about: one delivery at a time for each.
  record          text        not null,
  status          text        not null check (status in ('pending', 'delivered', 'failed')),
  -- The last ones: when, HTTP status, milliseconds, class of the error. Nothing of what was answered.
  attempts        jsonb       not null default '[]',
  -- How many there were since it became pending.
  tries           integer     not null default 0,
  -- While it is pending.
  next_attempt_at timestamptz check ((status = 'pending') = (next_attempt_at is not null)),
  -- Grows with every claim; only the owner of the latest one finishes it.
  claim           integer     not null default 0,
  -- A process sends it now; until then no other does.
  claimed_until   timestamptz,
  created_at      timestamptz not null default now(),
  unique (endpoint_id, event_id)
);
create index deliveries_due on deliveries (endpoint_id, next_attempt_at, number) where status = 'pending';
create index deliveries_next on deliveries (next_attempt_at) where status = 'pending';
create index deliveries_record on deliveries (endpoint_id, record, number) where status = 'pending';
create index deliveries_claimed on deliveries (endpoint_id, record) where claimed_until is not null;
create index deliveries_listed on deliveries (endpoint_id, number);
create index deliveries_created_at on deliveries (created_at);

-- One row: all events up to this one have their deliveries. Who makes or claims deliveries holds it meanwhile.
create table delivery_position (
  only_row        boolean     primary key default true check (only_row),
  sequence        bigint      not null
);
insert into delivery_position (sequence) values (0);
