-- Runs with programs from 0017 on.
-- People who were forgotten: attempts that replicas still hold then don't name them.
create table forgotten_people (
  -- SHA-256 of the name in lower case.
  hash bytea primary key,
  -- Attempts until then leave the person out.
  until timestamptz not null
);
