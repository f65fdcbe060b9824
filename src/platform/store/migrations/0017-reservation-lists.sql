-- Runs with programs from 0015 on.
-- Lists of reservations are read newest first, all of them or those of a trip or a member.
create index reservations_newest on reservations (created_at, id);
create index reservations_trip on reservations ((ordered ->> 'tripId'), created_at, id);
create index reservations_member on reservations ((ordered #>> '{table,memberId}'), created_at, id);
