-- Runs with programs from 0005 on.
-- Locks between processes for when the shared cache, which keeps them else, is away. A row stays when its lock is given
-- back, so that fences keep growing.
create table locks (
  name text primary key,
  owner uuid not null,
  fence bigint not null,
  held_until timestamptz not null
);

-- The schema of the job queue. pg-boss would make it itself, but replicas that start together on an empty database may
-- collide over it then: its own lock does not refresh what a connection remembers of the catalogue.
create schema if not exists pgboss;
