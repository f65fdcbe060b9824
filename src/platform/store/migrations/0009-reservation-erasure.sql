-- Runs with programs from 0009 on.
-- The guest's data goes some time after the reservation's end; what else the row holds stays.
alter table reservations
  -- When the guest's data was erased; null while it is there.
  add column erased_at timestamptz,
  -- Start and duration as they were ordered. Generated, so that rows of an older program have it too; a cast of the text
  -- to a time is not allowed here, since it depends on the session. The text is 2026-12-04T19:00:00.000Z; null where it
  -- is anything else, such as the year 0, which this database does not have.
  add column ends_at timestamptz generated always as (
    case when ordered #>> '{table,startAt}' ~ '^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}'
      and ordered #>> '{table,durationMinutes}' ~ '^[0-9]{1,6}$'
    then timezone('UTC', make_timestamp(
      substr(ordered #>> '{table,startAt}', 1, 4)::integer, substr(ordered #>> '{table,startAt}', 6, 2)::integer, 1, 0, 0, 0)
      -- Added, since no number is too great for it.
      + make_interval(
        days => substr(ordered #>> '{table,startAt}', 9, 2)::integer - 1,
        hours => substr(ordered #>> '{table,startAt}', 12, 2)::integer,
        mins => substr(ordered #>> '{table,startAt}', 15, 2)::integer + (ordered #>> '{table,durationMinutes}')::integer,
        secs => substr(ordered #>> '{table,startAt}', 18, 2)::double precision))
    end) stored;
create index reservations_to_erase on reservations (ends_at) where erased_at is null;
