-- Runs with programs from 0010 on.
-- Who made a reservation. Null for those of an older program; the person is null also where none was named.
alter table reservations
  add column consumer_id   text,
  add column consumer_name text,
  add column actor         text;
create index reservations_consumer on reservations (consumer_id, created_at, id);

-- One row a change of a consumer. It comes from the consumer's record in the secrets manager, where it waits.
create table audit_events (
  -- Begins with the time (UUID version 7, RFC 9562): its order is the order of the list, and old rows are one range.
  id         uuid primary key,
  action     text not null,
  actor_id   text not null,
  target_id  text not null,
  -- The whole event as it is shown.
  event      jsonb not null
);
create index audit_events_actor on audit_events (actor_id, id);
create index audit_events_target on audit_events (target_id, id);
