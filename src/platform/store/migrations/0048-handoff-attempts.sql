-- Runs with programs from 0017 on.
-- The last tries of a hand-off, the oldest first: JSON objects of number, at, ms, and the code and detail of what went wrong. Tries
-- of an older program are counted, but not among them.
alter table handoffs add column tries jsonb not null default '[]';
