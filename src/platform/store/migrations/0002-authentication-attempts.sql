-- Runs with programs from 0002 on.
-- One row an attempt to authenticate, accepted or not; never a key or a secret.
create table authentication_attempts (
  -- Begins with the time (UUID version 7, RFC 9562): its order is the order of the list, and old rows are one range.
  id           uuid        primary key,
  attempted_at timestamptz not null,
  -- Null only when the key is unknown.
  consumer_id  text,
  -- Method and route pattern.
  endpoint     text        not null,
  result       text        not null,
  request_id   text        not null
);
create index authentication_attempts_consumer on authentication_attempts (consumer_id, id);
-- Most attempts are accepted: whoever looks for these needs no index to find them.
create index authentication_attempts_refused on authentication_attempts (result, id) where result <> 'accepted';
