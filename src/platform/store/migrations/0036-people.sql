-- Runs with programs from 0039 on.
-- People who have signed in to the console. A row is one session; a cookie holds what its hash is of.
create table people_sessions (
  -- SHA-256 of the cookie's value, in hex.
  hash text primary key,
  issuer text not null,
  subject text not null,
  -- As records name the person.
  actor text not null,
  name text,
  -- Only where the issuer has verified it.
  email text,
  -- Claims of the ID token by which the person may act as consumers.
  claims jsonb not null,
  -- For the issuer's sign-out.
  id_token text not null,
  -- As which the person acts.
  consumer_id text not null,
  created_at timestamptz not null default now(),
  -- When the consumer was chosen.
  chosen_at timestamptz not null default now(),
  last_used_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index people_sessions_expires_at on people_sessions (expires_at);
create index people_sessions_subject on people_sessions (issuer, subject);

-- Who that is at the issuer; null where the actor is not proven.
alter table handoffs add column actor_subject text;
alter table reservations add column actor_subject text;
alter table idempotency_claims add column actor_verified boolean not null default false;
-- Who has signed in and sent the request.
alter table authentication_attempts add column person text;
