-- Runs with programs from 0011 on.
-- The fields that an event is about, as answers name them: who may see none of them does not see the event. Null: it is about
-- the whole record, or nobody can tell.
alter table events add column changed text[];

-- JSON: a hash of each field that the API shows, by its name, and with the empty name the hash in content that they belong
-- to; null where they are not known.
alter table known_records add column parts text;
