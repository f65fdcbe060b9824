-- Runs with programs from 0015 on.
-- Where an attempt came from, what it presented and what it got; null in rows from before, and where nothing was sent.
alter table authentication_attempts
  -- Whole, where the column address is a network; null in a row of many addresses.
  add column client_address text,
  add column user_agent     text,
  -- The public half of the credentials.
  add column api_key        text,
  add column status         smallint;
create index authentication_attempts_client on authentication_attempts (client_address, id);
create index authentication_attempts_key on authentication_attempts (api_key, id);

-- When each key was used last, to the minute.
create table credential_uses (
  api_key     text        primary key,
  consumer_id text        not null,
  used_at     timestamptz not null
);
create index credential_uses_consumer on credential_uses (consumer_id);
