-- Locks between processes for when the shared cache, which keeps them else, is away. A row stays when its lock is given
-- back, so that fences keep growing.
create table locks (
  name text primary key,
  owner uuid not null,
  fence bigint not null,
  held_until timestamptz not null
);
