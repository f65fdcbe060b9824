-- Runs with programs from 0017 on.
-- What calls for a hand-off may have made, once its content was replaced, or an item of which one has ended is handed off again.
alter table handoffs
  -- None of its calls came before; null: before its acceptance.
  add column tried_since timestamptz,
  -- Calls may have made the record with other content.
  add column replaced    boolean not null default false,
  -- Whether the item had a record before the first call; null where nobody has looked.
  add column had_record  boolean;
