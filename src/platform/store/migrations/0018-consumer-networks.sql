-- Runs with programs from 0017 on.
-- The networks that each consumer was ever used from, as far as they are remembered: use from another one is told of.
create table consumer_networks (
  consumer_id text not null,
  -- 192.0.2.0/24, 2001:db8:1::/48, or what a proxy has named that is no address.
  network     text not null,
  -- By day.
  last_used   date not null,
  primary key (consumer_id, network)
);
