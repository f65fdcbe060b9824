-- Runs with programs from 0012 on.
-- Of the token with which an endpoint was made, or its URL was changed: a list such as ["quotes:read"], in order. Null: of a pair.
alter table webhook_endpoints add column scopes jsonb;
