/**
 * The folder that owns each table: its code alone reads and writes the table. What others need of it is a function of
 * the owner, which takes their transaction, or returns a part of their statement.
 */
export const tableOwners: Readonly<Record<string, string>> = {
  schema_migrations: 'src/platform/store',
  locks: 'src/platform/store',
  call_budgets: 'src/platform/store',

  idempotency_claims: 'src/api/idempotency',
  record_leases: 'src/api/idempotency',

  authentication_attempts: 'src/identity/audit',
  audit_events: 'src/identity/audit',
  credential_uses: 'src/identity/audit',
  consumer_networks: 'src/identity/audit',

  events: 'src/features/events',
  event_counter: 'src/features/events',
  change_reader: 'src/features/events',
  change_positions: 'src/features/events',
  known_records: 'src/features/events',
  pending_deletions: 'src/features/events',

  webhook_endpoints: 'src/features/partner-webhooks',
  deliveries: 'src/features/partner-webhooks',
  delivery_position: 'src/features/partner-webhooks',

  copied_records: 'src/features/read-copy',
  copy_state: 'src/features/read-copy',

  handoffs: 'src/features/handoff',
  reservations: 'src/features/reservations',
  webhook_events: 'src/features/crm-webhooks',
};
