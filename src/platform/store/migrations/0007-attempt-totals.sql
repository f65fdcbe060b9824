-- Runs with programs from 0007 on.
-- Attempts of one address beyond its limit are one row for each minute and result.
alter table authentication_attempts
  -- Null in rows of one attempt.
  add column minute  timestamptz,
  -- Of IPv6 the first 64 bits. Null in a row of many addresses.
  add column address text,
  -- How many attempts each writer has added up, by the id of its first one. Null in rows of one attempt.
  add column counts  jsonb;
create unique index authentication_attempts_total
  on authentication_attempts (minute, result, coalesce(address, '')) where minute is not null;
