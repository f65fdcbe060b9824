-- Runs with programs from 0017 on.
-- The worlds of test consumers: what their requests work on in place of the CRM and the partner.
create table test_worlds (
  consumer_id text primary key,
  -- Quotes and bookings that are not deleted.
  records integer not null default 0,
  -- To the day.
  used_at timestamptz not null default now()
);

create table test_records (
  id bigint generated always as identity primary key,
  consumer_id text not null,
  resource text not null,
  external_id uuid not null,
  -- Whole seconds, as the CRM has them.
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Its other fields: JSON of texts.
  content text not null,
  -- Of these the ones by which lists are filtered, without case.
  filters jsonb not null,
  deleted_at timestamptz,
  unique (consumer_id, resource, external_id)
);
create index test_records_created on test_records (consumer_id, resource, created_at desc, external_id desc)
  where deleted_at is null;
create index test_records_updated on test_records (consumer_id, resource, updated_at, external_id)
  where deleted_at is null;
create index test_records_deleted on test_records (deleted_at) where deleted_at is not null;

-- Writes that met a fault which passes, and since when.
create table test_faults (
  consumer_id text not null,
  external_id uuid not null,
  met_at timestamptz not null default now(),
  primary key (consumer_id, external_id)
);
create index test_faults_met on test_faults (met_at);

-- Tables at the partner's double.
create table test_tables (
  consumer_id text not null,
  reference text not null,
  -- When it begins and ends, and for how many guests.
  start_at timestamptz not null,
  end_at timestamptz not null,
  guests integer not null,
  is_cancelled boolean not null default false,
  primary key (consumer_id, reference)
);
