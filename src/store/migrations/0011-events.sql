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
