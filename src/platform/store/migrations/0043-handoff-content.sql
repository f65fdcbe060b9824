-- Runs with programs from 0017 on.
-- When the content of a hand-off was stored, or replaced last: who approves it names it. An older program that replaces content
-- leaves it as it is.
alter table handoffs add column content_at timestamptz not null default now();
