-- Runs with programs from 0017 on.
-- Assertions with which consumers have asked for tokens: each counts once.
create table used_assertions (
  consumer_id text not null,
  -- SHA-256 of the assertion's id, base64url.
  jti_hash text not null,
  expires_at timestamptz not null,
  primary key (consumer_id, jti_hash)
);
create index used_assertions_expired on used_assertions (expires_at);
