-- Runs with programs from 0039 on.
-- With which arguments tools were called under each intent, for as long as a key is kept.
create table named_intents (
  consumer_id text not null,
  -- Made of tool and intent.
  key uuid not null,
  -- Made of tool and arguments.
  arguments uuid not null,
  called_at timestamptz not null,
  primary key (consumer_id, key)
);
create index named_intents_arguments on named_intents (consumer_id, arguments, called_at);
create index named_intents_called_at on named_intents (called_at);
