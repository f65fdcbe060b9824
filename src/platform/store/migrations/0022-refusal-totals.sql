-- Runs with programs from 0017 on.
-- Refusals of one consumer beyond what is stored one by one are one row for each minute and result.
alter table authentication_attempts
  -- The start of that minute; null in all other rows.
  add column refused_minute timestamptz;
create unique index authentication_attempts_refusals
  on authentication_attempts (refused_minute, result, consumer_id) where refused_minute is not null;
