-- Runs with programs from 0017 on.
-- Whether the booking of a reservation that was undone is looked for once more: a call that was given up may have made it since.
alter table reservations add column looks_again boolean not null default false;
create index reservations_to_look_at on reservations (next_attempt_at) where looks_again;
