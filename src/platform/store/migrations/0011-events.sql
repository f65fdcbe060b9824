-- Runs with programs from 0011 on.
-- The feed of events. A row is never changed; the oldest are deleted after their time.
create table events (
  -- From event_counter, in the transaction that adds the event: see src/changes/event-log.ts.
  sequence bigint primary key,
  id text not null unique default 'evt_' || replace(gen_random_uuid()::text, '-', ''),
  type text not null,
  resource_type text not null,
  resource_id text not null,
  occurred_at timestamptz not null,
  -- JSON, kept digit for digit and never parsed.
  data text not null,
  -- The data were too long, and are {id} only.
  data_omitted boolean not null,
  -- The permission that a reader of the event needs.
  permission_resource text not null,
  -- The consumer that made the record; null where that is not known.
  consumer_id text,
  -- The one consumer that may see the event; null: all that have the permission.
  private_to text,
  recorded_at timestamptz not null default now()
);
create index events_of_resource on events (resource_id, sequence);

-- One row: who adds events holds it until the end of the transaction.
create table event_counter (
  only_row boolean primary key default true check (only_row),
  last_sequence bigint not null,
  -- All events up to this one were deleted.
  deleted_through bigint not null
);
insert into event_counter (last_sequence, deleted_through) values (0, 0);

-- One row, there once changes are read: who reads, when the next poll is due, and how the last ones went.
create table change_reader (
  only_row boolean primary key default true check (only_row),
  -- Grows with every poll: only the owner of the latest one moves on.
  fence bigint not null default 0,
  lease_until timestamptz not null default to_timestamp(0),
  -- Changes from before are no events.
  started_at timestamptz not null default now(),
  -- When the last poll began, and the last one that came to its end.
  polled_at timestamptz,
  completed_at timestamptz,
  -- When the next one is due, and when it may begin at the soonest if somebody knows of changes.
  due_at timestamptz not null default to_timestamp(0),
  not_before timestamptz not null default to_timestamp(0),
  -- Polls that failed since the last good one; good ones since the last that looked far back.
  failures integer not null default 0,
  polls integer not null default 0,
  -- The last absence that was longer than the CRM remembers deletions.
  absent_from timestamptz,
  absent_to timestamptz
);

-- How far the changes of each resource were read, by the CRM's clock.
create table change_positions (
  resource text primary key,
  -- By all polls, and by those that look far back.
  read_to timestamptz not null,
  read_late_to timestamptz not null
);

-- Every record that the reader has seen, as the API last showed it.
create table known_records (
  resource text not null,
  native_id text not null,
  external_id text not null,
  -- The consumer that made it.
  consumer_id text,
  -- Hash of what the API shows, without the time of its last change.
  content text not null,
  is_deleted boolean not null,
  seen_at timestamptz not null default now(),
  primary key (resource, native_id)
);
create index known_records_external_id on known_records (external_id);
create index known_records_deleted on known_records (seen_at) where is_deleted;
