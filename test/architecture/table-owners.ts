/**
 * The folder that owns each table: its code alone reads and writes the table. What others need of it is a function of
 * the owner, which takes their transaction, or returns a part of their statement.
 */
export const tableOwners: Readonly<Record<string, string>> = {
  schema_migrations: 'src/platform/store',
  locks: 'src/platform/store',

  call_budgets: 'src/crm/budget',

  idempotency_claims: 'src/api/idempotency',
  record_leases: 'src/api/idempotency',

  authentication_attempts: 'src/identity/audit',
  forgotten_people: 'src/identity/audit',
  audit_events: 'src/identity/audit',
  credential_uses: 'src/identity/audit',
  consumer_networks: 'src/identity/audit',

  allowance_uses: 'src/identity/rate-limits',
  allowance_notices: 'src/identity/rate-limits',

  events: 'src/features/events',
  event_counter: 'src/features/events',
  change_reader: 'src/features/events',
  change_positions: 'src/features/events',
  known_records: 'src/features/events',
  pending_deletions: 'src/features/events',

  webhook_endpoints: 'src/features/partner-webhooks',
  deliveries: 'src/features/partner-webhooks',
  delivery_position: 'src/features/partner-webhooks',

  described_objects: 'src/features/org-schema',

  copied_records: 'src/features/read-copy',
  copy_state: 'src/features/read-copy',

  crm_usage: 'src/features/usage',
  consumer_requests: 'src/features/usage',

  handoffs: 'src/features/handoff',
  reservations: 'src/features/reservations',
  test_tables: 'src/features/reservations',
  test_worlds: 'src/features/test-mode',
  test_records: 'src/features/test-mode',
  test_faults: 'src/features/test-mode',
  named_intents: 'src/features/mcp',
  used_assertions: 'src/features/oauth',
  people_sessions: 'src/features/people',
  webhook_events: 'src/features/crm-webhooks',
};
