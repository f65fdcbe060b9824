-- Runs with programs from 0017 on.
-- Entity tag of an item's record from before the first call that updates it; null before that, and once no call may have updated it.
alter table handoffs add column entity_tag_before text;
