-- Runs with programs from 0017 on.
-- An attempt is found by the id of its request.
create index authentication_attempts_request on authentication_attempts (request_id);
