-- Runs with programs from 0017 on.
-- For delivery in turns, each consumer in its order of acceptance, and for the limit of waiting hand-offs per consumer.
create index handoffs_waiting_of_consumer on handoffs (consumer_id, type, sequence) where status = 'accepted';
-- Hand-offs that failed in the CRM, of each consumer by the time of the next try.
create index handoffs_failing on handoffs (type, consumer_id, due_at) where status = 'accepted' and troubles > 0;
