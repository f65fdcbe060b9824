-- Runs with programs from 0017 on.
-- What the CRM last said of the objects that the service uses, for all replicas and for a start without the CRM.
create table described_objects (
  -- Which org, and in whose eyes.
  org text not null,
  -- In lower case.
  object text not null,
  -- JSON; null: the org has no such object that the integration user may see.
  description text,
  described_at timestamptz not null,
  primary key (org, object)
);
