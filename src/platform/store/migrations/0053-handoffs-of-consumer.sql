-- Runs with programs from 0017 on.
-- Consumers that see their own hand-offs alone list them, and a test consumer's are deleted.
create index handoffs_of_consumer on handoffs (consumer_id, sequence);
