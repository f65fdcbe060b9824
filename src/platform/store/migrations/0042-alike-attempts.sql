-- Runs with programs from 0041 on.
-- Attempts beyond those that are stored one by one are one row for each minute and kind.
alter table authentication_attempts
  -- The start of that minute; null in all other rows.
  add column alike_minute timestamptz,
  -- A hash of all that these attempts have in common, keyed by their writer.
  add column alike        text;
create unique index authentication_attempts_alike
  on authentication_attempts (alike_minute, coalesce(alike, '')) where alike_minute is not null;
