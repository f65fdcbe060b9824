-- Runs with programs from 0017 on.
-- The offer's own reference at its source, and what a repeat of the hand-off does with the record that its item has.
alter table handoffs
  add column reference text,
  add column on_repeat text check (on_repeat in ('return', 'update'));
