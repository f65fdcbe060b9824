-- Runs with programs from 0017 on.
-- When the last poll began that read all changes of the resource: those that the org lacks are left out, and read later.
alter table change_positions add column completed_at timestamptz;
update change_positions set completed_at = (select completed_at from change_reader);

-- When the last poll began that read a resource whole and is in the copy, JSON by resource. Earlier programs go by
-- `kept_through`, which moves only where a poll left none out.
alter table copy_state add column kept_by_resource jsonb;
update copy_state set kept_by_resource =
  jsonb_build_object('member', kept_through, 'quote', kept_through, 'booking', kept_through)
where kept_through is not null;
